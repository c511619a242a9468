/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways in which one tensor can be wrong: a list of cases, each of which spoils a good tensor. */
#ifndef TESTS_API_COLLECTIVES_BAD_TENSORS_H
#define TESTS_API_COLLECTIVES_BAD_TENSORS_H

#include <stdbool.h>

#include "api/check.h"

struct bad_tensor {
    const char *name;
    const char *word; /* in the message */
    tutti_status status;
    void (*spoil)(DLTensor *t);
    bool only_written; /* a tensor that is read may be like this */
};

/* What a function does to a tensor. */
enum bad_use { READ, WRITTEN };

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

static inline void spoil_reach_below(DLTensor *t)
{
    static int64_t far = INT64_MIN / 2 + 1;
    t->strides = &far;
}

static inline void spoil_device(DLTensor *t)
{
    t->device = (DLDevice){.device_type = kDLCUDA, .device_id = 0};
}

/* For one-dimensional tensors of at least two elements that are larger than a byte. */
static const struct bad_tensor bad_tensors[] = {
    {"data NULL", "NULL as data", TUTTI_INVALID_ARGUMENT, spoil_data, false},
    {"negative ndim", "-1 dimensions", TUTTI_INVALID_ARGUMENT, spoil_ndim_negative, false},
    {"ndim too large", "17 dimensions", TUTTI_INVALID_ARGUMENT, spoil_ndim_large, false},
    {"shape NULL", "NULL as shape", TUTTI_INVALID_ARGUMENT, spoil_shape, false},
    {"negative length", "-1 as length", TUTTI_INVALID_ARGUMENT, spoil_length, false},
    {"unknown dtype", "unknown dtype", TUTTI_INVALID_ARGUMENT, spoil_dtype, false},
    {"two lanes", "unknown dtype", TUTTI_INVALID_ARGUMENT, spoil_lanes, false},
    {"count * size overflows", "too large", TUTTI_INVALID_ARGUMENT, spoil_bytes, false},
    {"misaligned", "not a multiple", TUTTI_INVALID_ARGUMENT, spoil_alignment, false},
    {"offset out of the address space", "address space", TUTTI_INVALID_ARGUMENT, spoil_offset, false},
    {"overlaps itself", "overlaps itself", TUTTI_INVALID_ARGUMENT, spoil_overlap, true},
    {"reaches too far", "beyond the address space", TUTTI_INVALID_ARGUMENT, spoil_reach, false},
    {"reaches too far below", "beyond the address space", TUTTI_INVALID_ARGUMENT, spoil_reach_below, false},
    {"on a device", "device", TUTTI_DEVICE_MISMATCH, spoil_device, false},
};

#define BAD_TENSORS (sizeof(bad_tensors) / sizeof(bad_tensors[0]))

/* Calls one function with `bad` in place of one of its tensors. */
typedef tutti_status (*bad_place)(tutti_group *group, const DLTensor *bad, const tutti_call *call);

/* Spoils `good` in every way, and passes NULL; each time `argument` is named and the group works afterwards. */
static inline void try_bad_tensors(tutti_group *group, const char *function, const char *argument, const DLTensor *good,
                                   bad_place place, enum bad_use use)
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
        if (bad_tensors[i].only_written && use != WRITTEN) {
            continue;
        }
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
