/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything that can be wrong with one tensor, as a list of cases that spoil a good one. */
#ifndef TESTS_API_BAD_TENSORS_H
#define TESTS_API_BAD_TENSORS_H

#include "check.h"

struct bad_tensor {
    const char *name;
    const char *word; /* in the message */
    tutti_status status;
    void (*spoil)(DLTensor *t);
};

static int64_t bad_numbers[TUTTI_MAX_NDIM + 1]; /* a shape or strides to point to; each case fills its own below */

static inline void spoil_data(DLTensor *t)
{
    t->data = NULL;
}

static inline void spoil_ndim_negative(DLTensor *t)
{
    t->ndim = -1;
}

static inline void spoil_ndim_large(DLTensor *t)
{
    t->ndim = TUTTI_MAX_NDIM + 1;
    t->shape = bad_numbers;
}

static inline void spoil_shape(DLTensor *t)
{
    t->shape = NULL;
}

static inline void spoil_length(DLTensor *t)
{
    static int64_t negative = -1;
    t->shape = &negative;
}

static inline void spoil_dtype(DLTensor *t)
{
    t->dtype = (DLDataType){.code = kDLComplex, .bits = 64, .lanes = 1};
}

static inline void spoil_lanes(DLTensor *t)
{
    t->dtype.lanes = 2;
}

static inline void spoil_bytes(DLTensor *t)
{
    static int64_t huge = INT64_MAX;
    t->shape = &huge;
}

static inline void spoil_alignment(DLTensor *t)
{
    t->byte_offset = 1;
}

static inline void spoil_offset(DLTensor *t)
{
    t->byte_offset = UINT64_MAX - 3;
}

static inline void spoil_stride(DLTensor *t)
{
    static int64_t negative = -1;
    t->strides = &negative;
}

static inline void spoil_overlap(DLTensor *t)
{
    static int64_t zero = 0;
    t->strides = &zero;
}

static inline void spoil_reach(DLTensor *t)
{
    static int64_t far = INT64_MAX / 2;
    t->strides = &far;
}

static inline void spoil_device(DLTensor *t)
{
    t->device = (DLDevice){.device_type = kDLCUDA, .device_id = 0};
}

/* For one-dimensional tensors of at least two elements that are larger than a byte. */
static const struct bad_tensor bad_tensors[] = {
    {"data NULL", "NULL as data", TUTTI_INVALID_ARGUMENT, spoil_data},
    {"negative ndim", "-1 dimensions", TUTTI_INVALID_ARGUMENT, spoil_ndim_negative},
    {"ndim too large", "17 dimensions", TUTTI_INVALID_ARGUMENT, spoil_ndim_large},
    {"shape NULL", "NULL as shape", TUTTI_INVALID_ARGUMENT, spoil_shape},
    {"negative length", "-1 as length", TUTTI_INVALID_ARGUMENT, spoil_length},
    {"unknown dtype", "unknown dtype", TUTTI_INVALID_ARGUMENT, spoil_dtype},
    {"two lanes", "unknown dtype", TUTTI_INVALID_ARGUMENT, spoil_lanes},
    {"count * size overflows", "too large", TUTTI_INVALID_ARGUMENT, spoil_bytes},
    {"misaligned", "not a multiple", TUTTI_INVALID_ARGUMENT, spoil_alignment},
    {"offset out of the address space", "address space", TUTTI_INVALID_ARGUMENT, spoil_offset},
    {"negative stride", "-1 as stride", TUTTI_INVALID_ARGUMENT, spoil_stride},
    {"overlaps itself", "overlaps itself", TUTTI_INVALID_ARGUMENT, spoil_overlap},
    {"reaches too far", "end of the address space", TUTTI_INVALID_ARGUMENT, spoil_reach},
    {"on a device", "device", TUTTI_DEVICE_MISMATCH, spoil_device},
};

#define BAD_TENSORS (sizeof(bad_tensors) / sizeof(bad_tensors[0]))

/* Calls one function with `bad` in place of one of its tensors. */
typedef tutti_status (*bad_place)(tutti_group *group, const DLTensor *bad, const tutti_call *call);

/* Spoils `good` in every way, and passes NULL; each time `argument` is named and the group works afterwards. */
static inline void try_bad_tensors(tutti_group *group, const char *function, const char *argument, const DLTensor *good,
                                   bad_place place)
{
    tutti_error e;
    char text[128];
    char word[128];
    snprintf(text, sizeof(text), "%s with %s NULL", function, argument);
    snprintf(word, sizeof(word), "%s: %s is NULL", function, argument);
    test_status(__FILE__, __LINE__, text, place(group, NULL, TUTTI_CALL(.error = &e)), TUTTI_INVALID_ARGUMENT, &e,
                word);
    EXPECT_USABLE(group);
    for (size_t i = 0; i < BAD_TENSORS; i++) {
        DLTensor bad = *good;
        bad_tensors[i].spoil(&bad);
        tutti_status status = place(group, &bad, TUTTI_CALL(.error = &e));
        snprintf(text, sizeof(text), "%s, %s: %s", function, argument, bad_tensors[i].name);
        snprintf(word, sizeof(word), "%s: %s ", function, argument);
        test_status(__FILE__, __LINE__, text, status, bad_tensors[i].status, &e, word);
        test_status(__FILE__, __LINE__, text, status, bad_tensors[i].status, &e, bad_tensors[i].word);
        EXPECT_USABLE(group);
    }
}

#endif
