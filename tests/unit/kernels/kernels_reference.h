/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a fold must give, computed as unlike the kernels as possible: one element at a time, narrow floats as numbers in
 * double built by ldexp, rounding by searching the table of all values of the format for the nearest one, integers as
 * 64-bit patterns that are cut to their width.
 */
#ifndef TESTS_UNIT_KERNELS_KERNELS_REFERENCE_H
#define TESTS_UNIT_KERNELS_KERNELS_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tutti/collectives.h>

struct format {
    int exponent_bits;
    int mantissa_bits;
    bool has_infinity;
    uint32_t nan;
    double *values; /* of the positive finite codes, and of the one behind them */
    uint32_t finite;
};

static struct format formats[TUTTI_DTYPE_COUNT] = {
    [TUTTI_F16] = {5, 10, true, 0x7e00, NULL, 0x7c00},
    [TUTTI_BF16] = {8, 7, true, 0x7fc0, NULL, 0x7f80},
    [TUTTI_F8_E4M3] = {4, 3, false, 0x7f, NULL, 0x7f},
    [TUTTI_F8_E5M2] = {5, 2, true, 0x7e, NULL, 0x7c},
};
static double format_values[TUTTI_DTYPE_COUNT][0x8000];

static void reference_setup(void)
{
    for (int d = TUTTI_F16; d <= TUTTI_F8_E5M2; d++) {
        struct format *f = &formats[d];
        const int bias = (1 << (f->exponent_bits - 1)) - 1;
        f->values = format_values[d];
        for (uint32_t code = 0; code <= f->finite; code++) {
            const int exponent = (int)(code >> f->mantissa_bits);
            const double fraction = ldexp(code & ((1u << f->mantissa_bits) - 1), -f->mantissa_bits);
            f->values[code] = exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
        }
    }
}

static double reference_decode(const struct format *f, uint32_t code)
{
    const uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);
    const uint32_t magnitude = code & (sign - 1);
    double value = NAN;
    if (magnitude < f->finite) {
        value = f->values[magnitude];
    } else if (magnitude == f->finite && f->has_infinity) {
        value = INFINITY;
    }
    return code & sign ? -value : value;
}

static uint32_t reference_encode(const struct format *f, double value)
{
    if (isnan(value)) {
        return f->nan;
    }
    const double magnitude = fabs(value);
    uint32_t low = 0;
    uint32_t high = f->finite; /* values[low] <= magnitude < values[high], or magnitude is beyond all */
    uint32_t code = f->finite;
    if (magnitude < f->values[f->finite]) {
        while (high - low > 1) {
            const uint32_t middle = (low + high) / 2;
            if (f->values[middle] <= magnitude) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const double below = magnitude - f->values[low];
        const double above = f->values[high] - magnitude;
        code = below < above || (below == above && low % 2 == 0) ? low : high;
    }
    if (code == f->finite && !f->has_infinity) {
        return f->nan;
    }
    return code | (signbit(value) ? 1u << (f->exponent_bits + f->mantissa_bits) : 0);
}

static double reference_minmax(tutti_reduce_op op, double a, double x)
{
    if (isnan(a) || isnan(x)) {
        return NAN;
    }
    if (a == 0 && x == 0) {
        const bool negative = op == TUTTI_MIN ? signbit(a) || signbit(x) : signbit(a) && signbit(x);
        return negative ? -0.0 : 0.0;
    }
    return op == TUTTI_MIN ? fmin(a, x) : fmax(a, x);
}

/* Rounds to f32 unless the accumulator is f64. Exact results of + * / of floats, rounded to double and then to float,
 * are rounded correctly. volatile: no contraction, whatever the flags of this file. */
static double reference_round(bool wide, double value)
{
    volatile double exact = value;
    return wide ? exact : (double)(float)exact;
}

static double reference_float(bool wide, tutti_reduce_op op, const double *x, size_t n, const double *scales)
{
    double total = 0;
    for (size_t k = 0; k < n; k++) {
        double own = x[k];
        if (op == TUTTI_PREMUL_SUM) {
            own = reference_round(wide, own * reference_round(wide, scales[k]));
        }
        if (k == 0) {
            total = own;
        } else if (op == TUTTI_MIN || op == TUTTI_MAX) {
            total = reference_minmax(op, total, own);
        } else {
            total = reference_round(wide, op == TUTTI_PRODUCT ? total * own : total + own);
        }
    }
    return op == TUTTI_AVG ? reference_round(wide, total / (double)n) : total;
}

static uint64_t reference_int(tutti_dtype dtype, tutti_reduce_op op, const uint64_t *pattern, size_t n,
                              const double *scales)
{
    const int width = 8 * (int)tutti_dtype_size(dtype);
    const bool is_signed = dtype >= TUTTI_I8 && dtype <= TUTTI_I64;
    uint64_t total = 0;
    for (size_t k = 0; k < n; k++) {
        uint64_t x = pattern[k];
        if (is_signed && width < 64 && x >> (width - 1)) {
            x |= UINT64_MAX << width;
        }
        if (op == TUTTI_PREMUL_SUM) {
            x *= scales[k] < 0 ? 0 - (uint64_t)-scales[k] : (uint64_t)scales[k];
        } else if (op == TUTTI_LAND || op == TUTTI_LOR) {
            x = x ? 1 : 0;
        }
        const bool below = is_signed ? (int64_t)x < (int64_t)total : x < total;
        if (k == 0) {
            total = x;
        } else if (op == TUTTI_MIN) {
            total = below ? x : total;
        } else if (op == TUTTI_MAX) {
            total = below ? total : x;
        } else if (op == TUTTI_PRODUCT) {
            total *= x;
        } else if (op == TUTTI_BAND || op == TUTTI_LAND) {
            total &= x;
        } else if (op == TUTTI_BOR || op == TUTTI_LOR) {
            total |= x;
        } else if (op == TUTTI_BXOR) {
            total ^= x;
        } else {
            total += x;
        }
    }
    if (op == TUTTI_AVG && is_signed && total >> 63) {
        total = 0 - (0 - total) / n;
    } else if (op == TUTTI_AVG) {
        total /= n;
    }
    return width < 64 ? total & ~(UINT64_MAX << width) : total;
}

static uint64_t reference_bool(tutti_reduce_op op, const uint64_t *x, size_t n)
{
    size_t trues = 0;
    for (size_t k = 0; k < n; k++) {
        trues += x[k] != 0;
    }
    switch (op) {
    case TUTTI_PRODUCT:
    case TUTTI_MIN:
    case TUTTI_BAND:
    case TUTTI_LAND:
        return trues == n;
    case TUTTI_BXOR:
        return trues % 2;
    default:
        return trues > 0;
    }
}

/* The fold of one element; patterns are the elements' bits. n <= 32. */
__attribute__((unused)) static uint64_t reference_fold(tutti_dtype dtype, tutti_reduce_op op, const uint64_t *pattern,
                                                       size_t n, const double *scales)
{
    if (dtype == TUTTI_BOOL) {
        return reference_bool(op, pattern, n);
    }
    if (dtype >= TUTTI_I8) {
        return reference_int(dtype, op, pattern, n, scales);
    }
    double x[32];
    for (size_t k = 0; k < n; k++) {
        float single;
        if (dtype == TUTTI_F64) {
            memcpy(&x[k], &pattern[k], 8);
        } else if (dtype == TUTTI_F32) {
            const uint32_t low = (uint32_t)pattern[k];
            memcpy(&single, &low, 4);
            x[k] = single;
        } else {
            x[k] = reference_decode(&formats[dtype], (uint32_t)pattern[k]);
        }
    }
    const double total = reference_float(dtype == TUTTI_F64, op, x, n, scales);
    uint64_t result = 0;
    if (dtype == TUTTI_F64) {
        memcpy(&result, &total, 8);
        return isnan(total) ? 0x7ff8000000000000u : result;
    }
    if (dtype == TUTTI_F32) {
        const float single = (float)total;
        memcpy(&result, &single, 4);
        return isnan(total) ? 0x7fc00000u : result;
    }
    return reference_encode(&formats[dtype], total);
}

#endif
