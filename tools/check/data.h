/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test data, and tensors that know when somebody has written where he should not.
 *
 * A tensor's memory lies on the device of the group under test. The suite looks at it, and fills it, in host memory: where
 * the device is not the CPU, that is a mirror, which is copied to the device, guards, gaps and all, when it was made or
 * filled, and back before anybody looks at it. No case knows the difference.
 */
#ifndef TTI_CHECK_DATA_H
#define TTI_CHECK_DATA_H

#include "check/check.h"

/* ---- data.c: data by counter ---- */

/* A well-mixed word of two; the source of everything that looks random here. */
uint64_t tti_check_mix(uint64_t key, uint64_t counter);
uint64_t tti_check_hash(const void *data, size_t bytes, uint64_t key);
/* The key of a rank's data in the running case. */
uint64_t tti_check_rank_key(const struct tti_check *c, int rank);

/* Elements [first, first + count) of the stream `key`. Any element can be had without the ones before it. */
void tti_check_generate(void *out, tutti_dtype dtype, enum tti_check_pattern pattern, uint64_t key, uint64_t first,
                        size_t count);

/* Memory or the end of the program: a suite without memory has nothing to say. */
void *tti_check_memory(size_t bytes);

/* ---- tensors.c ---- */

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
    struct tti_arena *arena;
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

/* Elements that nobody may have written. */
void tti_check_tensor_untouched(struct tti_check *c, struct tti_check_tensor *x, size_t at, size_t count);

/* ---- device_memory.c: memory of the group's device, for what is no tensor of the above ---- */

/* The group's device. */
DLDevice tti_check_device(const struct tti_check *c);
/* Memory there, or the end of the program. */
void *tti_check_device_alloc(struct tti_arena *arena, size_t bytes);
/* Copies between any two places of host and device; fails as above. */
void tti_check_device_copy(struct tti_arena *arena, void *dst, const void *src, size_t bytes);

/* Compact tensors over memory of the group's device; `shape` is borrowed. */
DLTensor tti_check_tensor_over(const struct tti_check *c, void *memory, int ndim, const int64_t *shape,
                               tutti_dtype dtype);
DLTensor tti_check_tensor_over_1d(const struct tti_check *c, void *memory, const int64_t *count, tutti_dtype dtype);

/* What a compact tensor holds, in host memory that the caller frees. */
unsigned char *tti_check_tensor_fetch(const struct tti_check *c, const DLTensor *t, size_t bytes);

/* Numbers of the caller's that a call takes or gives: t is a tensor over them or, on a device, over a copy. The struct must
 * not be moved. */
struct tti_check_values {
    DLTensor t;
    int64_t count;
    int64_t *values;
    struct tti_arena *arena; /* NULL: there is no copy */
};

void tti_check_values_begin(const struct tti_check *c, struct tti_check_values *w, int64_t *values, int64_t count);
/* Ends the loan: `values` are what the tensor holds. */
void tti_check_values_end(struct tti_check_values *w);

/* ---- expect.c: comparisons ---- */

/* Whether a backend with these capabilities promises every bit of a reduction; if not, it has an error bound. */
bool tti_check_promises_bits(uint32_t capabilities, tutti_dtype dtype);

/* Elements [at, at + count) of a result are elements [first, ...) of rank's data, bit for bit. */
void tti_check_expect_copy(struct tti_check *c, const unsigned char *result, tutti_dtype dtype, size_t at, size_t count,
                           int rank, enum tti_check_pattern pattern, uint64_t first);

/* ... are the reduction of elements [first, ...) of all ranks' data. */
void tti_check_expect_fold(struct tti_check *c, const unsigned char *result, const struct tti_check_plan *plan,
                           size_t at, size_t count, uint64_t first);

/* One number that has to be another one. Returns whether it is. Every plain comparison of the suite goes through it. */
bool tti_check_expect_i64(struct tti_check *c, const char *what, int64_t got, int64_t wanted);

/* ---- parts.c: where parts lie in a joined tensor ---- */

struct tti_check_parts {
    int n;
    int64_t *counts; /* rows of each part              */
    int64_t *at;     /* first row of each part         */
    int64_t rows;    /* of the joined tensor           */
    size_t outer;    /* product of the dimensions before dim */
    size_t inner;    /* and behind it                  */
    bool displaced;  /* the parts do not simply follow one another */
};

/* The joined tensor of a plan: counts and places as the spread says. */
void tti_check_parts_make(struct tti_check_parts *parts, int n, const struct tti_check_plan *plan);
/* all_to_all_v: how rank `rank` cuts its input (send) or joins its output. */
void tti_check_parts_make_pairwise(struct tti_check_parts *parts, int n, const struct tti_check_plan *plan, int rank,
                                   bool send);
void tti_check_parts_free(struct tti_check_parts *parts);
/* The plan's shape with `rows` rows along its dimension. */
void tti_check_parts_shape(const struct tti_check_plan *plan, int64_t rows, int64_t shape[3]);

static inline size_t tti_check_parts_first(const struct tti_check_parts *parts, int part, size_t outer)
{
    return (outer * (size_t)parts->rows + (size_t)parts->at[part]) * parts->inner;
}

static inline size_t tti_check_parts_run(const struct tti_check_parts *parts, int part)
{
    return (size_t)parts->counts[part] * parts->inner;
}

/* The joined result has every rank's part where it belongs, and nothing else was written. */
void tti_check_parts_gathered(struct tti_check *c, struct tti_check_tensor *x, const struct tti_check_parts *parts,
                              const struct tti_check_plan *plan);

/* The joined result's rows that are in no part have not been written. */
void tti_check_parts_gaps(struct tti_check *c, struct tti_check_tensor *x, const struct tti_check_parts *parts);

#endif
