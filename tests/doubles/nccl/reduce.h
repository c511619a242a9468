/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions as NCCL's kernels compute them: every step rounds to the element type (sums of f16, bf16 and fp8 are
 * computed wider and rounded back after each addition; fp8 goes through f16 and saturates), maximum and minimum of
 * floats ignore NaN, integers wrap. The average multiplies each float by the rounded 1/ranks first; of integers it
 * divides the wrapped sum, towards zero. The order is that of the ranks, which NCCL does not promise.
 */
#ifndef TESTS_DOUBLES_NCCL_REDUCE_H
#define TESTS_DOUBLES_NCCL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

enum tti_function { TTI_SUM, TTI_PROD, TTI_MAX, TTI_MIN, TTI_PRE_MULTIPLIED, TTI_DIVIDED };

struct tti_reduction {
    enum tti_function function;
    uint32_t divisor;          /* TTI_DIVIDED */
    unsigned char scalar[8];   /* TTI_PRE_MULTIPLIED: an element ... */
    const void *device_scalar; /* ... or its address when the operation runs */
};

/* 1/divisor as an element of a type of floats. */
void tti_reduce_reciprocal(int type, int divisor, unsigned char scalar[8]);
/* Each rank applies it to its own elements before they are added. */
void tti_reduce_before(const struct tti_reduction *reduction, int type, void *out, const void *in, size_t count);
/* The next rank's: out = out + in. */
void tti_reduce_next(const struct tti_reduction *reduction, int type, void *out, const void *in, size_t count);
/* After the last one. */
void tti_reduce_last(const struct tti_reduction *reduction, int type, void *out, size_t count);

#endif
