/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a reduction must give, computed without the library: the exact left fold that the design prescribes. Beside it
 * the value in long double with an error bound, for engines that promise less.
 */
#ifndef TOOLS_CHECK_REFERENCE_FOLD_H
#define TOOLS_CHECK_REFERENCE_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

#define TTI_CHECK_BLOCK      2048
#define TTI_CHECK_WIRE_BLOCK 32 /* of TUTTI_WIRE_FP8 */

/* The fold of a block of elements; feed it rank by rank. */
struct tti_check_fold {
    tutti_dtype dtype;
    tutti_reduce_op op;
    int sources; /* so far */
    size_t count;
    union {
        double f64[TTI_CHECK_BLOCK]; /* of every float */
        uint64_t u64[TTI_CHECK_BLOCK];
    } accumulator;
    bool drops_nan;                    /* minimum and maximum may leave NaNs out */
    tutti_wire wire;                   /* not full: the bound is that of tutti/collectives.h, and `bounded` is set */
    bool rounds_often;                 /* ... on a wire the engine rounds the sum at each step */
    size_t wire_block;                 /* so many elements may share a block: TTI_CHECK_WIRE_BLOCK at least */
    bool bounded;                      /* also keep what follows */
    long double wide[TTI_CHECK_BLOCK]; /* of minimum and maximum: those of the numbers alone */
    long double magnitude[TTI_CHECK_BLOCK];
    long double most[TTI_CHECK_BLOCK];  /* no partial result of what is finite is larger, whatever the order */
    long double least[TTI_CHECK_BLOCK]; /* products: ... or smaller */
    /* Of each block of a wire: the largest finite magnitude of the last source, and the sum of those of all. */
    long double largest[TTI_CHECK_BLOCK / TTI_CHECK_WIRE_BLOCK];
    long double peaks[TTI_CHECK_BLOCK / TTI_CHECK_WIRE_BLOCK];
};

void tti_check_fold_start(struct tti_check_fold *fold, tutti_dtype dtype, tutti_reduce_op op, size_t count,
                          bool bounded);
void tti_check_fold_add(struct tti_check_fold *fold, const void *source, double scale);
/* The values of the reduction were sent in a wire format, on a group with these capabilities. */
void tti_check_fold_wire(struct tti_check_fold *fold, tutti_wire wire, uint32_t capabilities);
/* The exact result. */
void tti_check_fold_finish(const struct tti_check_fold *fold, void *out);
/* Whether `got` (an element's bits) is within the bound of element i. */
bool tti_check_fold_close(const struct tti_check_fold *fold, size_t i, uint64_t exact, uint64_t got);

#endif
