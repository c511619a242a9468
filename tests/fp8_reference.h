/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What TUTTI_WIRE_FP8 makes of a block, computed in double and as unlike the kernels as possible: the scale is found by
 * trying, and a value is rounded by rint at its last place.
 */
#ifndef TESTS_FP8_REFERENCE_H
#define TESTS_FP8_REFERENCE_H

#include <math.h>
#include <stddef.h>

enum { FP8_BLOCK = 32 };

/* The exponent of the scale: the least, from -127 on, that brings every finite value to 416 at most. */
static inline int fp8_scale(const float *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        const double magnitude = fabs((double)values[i]);
        largest = isfinite(magnitude) && magnitude > largest ? magnitude : largest;
    }
    int scale = -127;
    for (double most = ldexp(416, scale); largest > most; most *= 2) {
        scale++;
    }
    return scale;
}

/* A value whose block has that scale, to nearest even. */
static inline float fp8_rounded(float value, int scale)
{
    if (!isfinite(value)) {
        return isnan(value) ? NAN : value;
    }
    int exponent = 0;
    (void)frexp((double)value, &exponent); /* 2^(exponent - 1) <= |value| */
    const int least = -6 + scale;
    const double last_place = ldexp(1, (value != 0 && exponent - 1 > least ? exponent - 1 : least) - 3);
    return (float)(rint((double)value / last_place) * last_place);
}

/* A tensor of `count` values, block by block. */
static inline void fp8_round(float *values, size_t count)
{
    for (size_t from = 0; from < count; from += FP8_BLOCK) {
        const size_t n = count - from < FP8_BLOCK ? count - from : FP8_BLOCK;
        const int scale = fp8_scale(values + from, n);
        for (size_t i = from; i < from + n; i++) {
            values[i] = fp8_rounded(values[i], scale);
        }
    }
}

#endif
