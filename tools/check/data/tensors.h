/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors that notice each write to memory that is no part of the result. */
#ifndef TOOLS_CHECK_DATA_TENSORS_H
#define TOOLS_CHECK_DATA_TENSORS_H

#include "check/check.h"
#include "check/plan.h"

struct tti_check_tensor {
    DLTensor t; /* what the library gets; points into this struct, which therefore must not be copied */
    int64_t shape[3];
    int64_t strides[3]; /* in elements */
    tutti_dtype dtype;
    size_t item;
    size_t count;
    bool compact;
    unsigned char *memory; /* guard, elements, guard; or the mirror of `there` */
    unsigned char *there;  /* the same on the device; NULL on the CPU */
    struct tti_device_arena *arena;
    size_t bytes;
    size_t start;          /* offset of the lowest element */
    size_t first;          /* from there to the first one; not 0 where a dimension runs backwards */
    size_t span;           /* from the lowest element behind the highest one, gaps included */
    unsigned char *packed; /* the elements of a strided result */
    uint64_t sealed;
};

/* Makes a tensor whose memory (elements included) holds the guard pattern. */
void tti_check_tensor_make(const struct tti_check *c, struct tti_check_tensor *x, tutti_dtype dtype, int ndim,
                           const int64_t *shape, enum tti_check_layout layout);
void tti_check_tensor_free(struct tti_check_tensor *x);

/* Fills the elements [at, at + count), in row-major order, with elements [first, ...) of rank's data. */
void tti_check_tensor_fill(struct tti_check *c, struct tti_check_tensor *x, size_t at, size_t count, int rank,
                           enum tti_check_pattern pattern, uint64_t first);

/* Fills x with the elements of `from`, which has the same shape. */
void tti_check_tensor_take(struct tti_check_tensor *x, const struct tti_check_tensor *from);

/* A tensor over elements [at, ...) of a compact x; memory stays x's. `shape` is borrowed. */
DLTensor tti_check_tensor_view(const struct tti_check_tensor *x, size_t at, int ndim, const int64_t *shape);

/* An input that must come back as it was: seal before the call, verify after it. */
void tti_check_tensor_seal(struct tti_check_tensor *x);
void tti_check_tensor_unchanged(struct tti_check *c, struct tti_check_tensor *x, const char *what);

/* The result: checks the guards and gaps, and returns the elements in row-major order (valid until free). */
const unsigned char *tti_check_tensor_result(struct tti_check *c, struct tti_check_tensor *x);

/* Elements that must be unwritten. */
void tti_check_tensor_untouched(struct tti_check *c, struct tti_check_tensor *x, size_t at, size_t count);

#endif
