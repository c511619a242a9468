/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs for tests of the kernels: pseudo-random numbers of useful sizes, mixed with every special value; and the
 * instruction sets that this CPU can be tested with. */
#ifndef TESTS_UNIT_KERNELS_KERNELS_INPUTS_H
#define TESTS_UNIT_KERNELS_KERNELS_INPUTS_H

#include <stdint.h>
#include <string.h>

#include "kernels/isa/table.h"
#include "kernels/kernels.h"

/* SplitMix64. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The bits of one element: any pattern, a special one, or a number near 1 so that sums cancel. */
static inline uint64_t random_element(tutti_dtype dtype, uint64_t *state)
{
    /* The exponent's place and its code for 1, by float dtype. */
    static const struct {
        int exponent_bits;
        int mantissa_bits;
    } fields[] = {[TUTTI_F64] = {11, 52}, [TUTTI_F32] = {8, 23},    [TUTTI_F16] = {5, 10},
                  [TUTTI_BF16] = {8, 7},  [TUTTI_F8_E4M3] = {4, 3}, [TUTTI_F8_E5M2] = {5, 2}};
    const uint64_t random = next_random(state);
    const int width = 8 * (int)tutti_dtype_size(dtype);
    const uint64_t mask = UINT64_MAX >> (64 - width);
    const unsigned kind = (unsigned)(next_random(state) % 8);
    if (dtype == TUTTI_BOOL) {
        return kind < 3 ? 0 : random & mask;
    }
    if (dtype >= TUTTI_I8) {
        return kind == 0 ? 0 : kind == 1 ? mask : kind == 2 ? (mask >> 1) + (random & 1) : random & mask;
    }
    const int mantissa_bits = fields[dtype].mantissa_bits;
    const uint64_t sign = (random >> 63) << (width - 1);
    const uint64_t bias = (1u << (fields[dtype].exponent_bits - 1)) - 1;
    const uint64_t infinity = ((bias * 2 + 1) << mantissa_bits) & (mask >> 1);
    const uint64_t fraction = random & ((UINT64_C(1) << mantissa_bits) - 1);
    switch (kind) {
    case 0:
        switch (random >> 32 & 7) {
        case 0:
            return sign; /* zero */
        case 1:
            return sign | 1; /* smallest subnormal */
        case 2:
            return sign | fraction; /* subnormal */
        case 3:
            return sign | infinity;
        case 4:
            return sign | infinity | fraction; /* mostly NaN */
        case 5:
            return sign | (infinity - 1); /* largest */
        case 6:
            return sign | UINT64_C(1) << mantissa_bits; /* smallest normal */
        default:
            return sign | (infinity - 1) >> 1;
        }
    case 1:
        return random & mask;
    default:
        return sign | (bias - 3 + (random >> 52 & 3)) << mantissa_bits | fraction;
    }
}

static inline void store_element(void *to, size_t index, size_t size, uint64_t pattern)
{
    memcpy((char *)to + index * size, &pattern, size); /* little endian, as all that Tutti runs on */
}

static inline uint64_t load_element(const void *from, size_t index, size_t size)
{
    uint64_t pattern = 0;
    memcpy(&pattern, (const char *)from + index * size, size);
    return pattern;
}

static inline double random_scale(tutti_dtype dtype, uint64_t *state)
{
    const int64_t small = (int64_t)(next_random(state) % 41) - 20;
    return dtype >= TUTTI_I8 ? (double)small : (double)small / 7.0;
}

/* The tables this CPU can run, from "base" to the one in use; returns how many. */
static inline size_t usable_tables(const struct tti_fold_table *tables[3])
{
    size_t count = 0;
    tables[count++] = &tti_fold_table_base;
#if defined(__x86_64__)
    if (strcmp(tti_kernels_isa(), "base") != 0) {
        tables[count++] = &tti_fold_table_avx2;
    }
    if (strcmp(tti_kernels_isa(), "avx512") == 0) {
        tables[count++] = &tti_fold_table_avx512;
    }
#endif
    return count;
}

#endif
