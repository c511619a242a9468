/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floating-point formats straight from their definition: a sign, an exponent, a mantissa. Decoding computes the value
 * that the definition names. Encoding is a search: codes of one sign are ordered like their values, so the two
 * neighbours of a number are found by bisection, and the nearer one is taken (the even one when both are as near).
 * Slow, and so plain that it can be believed; it shares no idea with the library's conversions, which it judges.
 */
#include "check/reference/float_format.h"

#include <string.h>

static const struct tti_check_format formats[TUTTI_DTYPE_COUNT] = {
    [TUTTI_F64] = {52, 11, true}, [TUTTI_F32] = {23, 8, true},     [TUTTI_F16] = {10, 5, true},
    [TUTTI_BF16] = {7, 8, true},  [TUTTI_F8_E4M3] = {3, 4, false}, [TUTTI_F8_E5M2] = {2, 5, true},
};

const struct tti_check_format *tti_check_format_of(tutti_dtype dtype)
{
    if (dtype <= 0 || dtype >= TUTTI_DTYPE_COUNT || formats[dtype].exponent == 0) {
        return NULL;
    }
    return &formats[dtype];
}

static uint64_t all_ones(const struct tti_check_format *f)
{
    return ((uint64_t)1 << (f->mantissa + f->exponent)) - 1;
}

static uint64_t top_exponent(const struct tti_check_format *f)
{
    return (((uint64_t)1 << f->exponent) - 1) << f->mantissa;
}

uint64_t tti_check_format_nan(const struct tti_check_format *f)
{
    return f->infinity ? top_exponent(f) | (uint64_t)1 << (f->mantissa - 1) : all_ones(f);
}

uint64_t tti_check_format_infinity(const struct tti_check_format *f)
{
    return f->infinity ? top_exponent(f) : all_ones(f);
}

uint64_t tti_check_format_max(const struct tti_check_format *f)
{
    return tti_check_format_infinity(f) - 1;
}

bool tti_check_format_is_nan(const struct tti_check_format *f, uint64_t bits)
{
    const uint64_t magnitude = bits & all_ones(f);
    return f->infinity ? magnitude > top_exponent(f) : magnitude == all_ones(f);
}

static double power_of_two(int exponent)
{
    /* within the normal range of a double: narrow formats and f32 need no more */
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* What a code without sign would mean if no code were set aside for infinity and NaN. */
static double magnitude_of(const struct tti_check_format *f, uint64_t code)
{
    const int bias = (1 << (f->exponent - 1)) - 1;
    const uint64_t mantissa = code & (((uint64_t)1 << f->mantissa) - 1);
    const int exponent = (int)(code >> f->mantissa);
    if (exponent == 0) {
        return (double)mantissa * power_of_two(1 - bias - f->mantissa);
    }
    return (double)(mantissa | (uint64_t)1 << f->mantissa) * power_of_two(exponent - bias - f->mantissa);
}

double tti_check_format_decode(const struct tti_check_format *f, uint64_t bits)
{
    if (f->mantissa == 52) {
        double value;
        memcpy(&value, &bits, sizeof(value));
        return value;
    }
    if (f->mantissa == 23) {
        float value;
        memcpy(&value, &bits, sizeof(value));
        return value;
    }
    const uint64_t code = bits & all_ones(f);
    double magnitude;
    if (tti_check_format_is_nan(f, bits)) {
        return __builtin_nan("");
    }
    if (f->infinity && code == top_exponent(f)) {
        magnitude = __builtin_inf();
    } else {
        magnitude = magnitude_of(f, code);
    }
    return bits & ~all_ones(f) ? -magnitude : magnitude;
}

uint64_t tti_check_format_encode(const struct tti_check_format *f, double value)
{
    if (value != value) {
        return tti_check_format_nan(f);
    }
    const bool negative = __builtin_signbit(value) != 0;
    const double magnitude = negative ? -value : value;
    uint64_t below = 0;
    uint64_t above = tti_check_format_max(f) + 1;
    if (magnitude >= magnitude_of(f, above)) {
        below = above;
    }
    while (below + 1 < above) {
        const uint64_t middle = (below + above) / 2;
        if (magnitude_of(f, middle) <= magnitude) {
            below = middle;
        } else {
            above = middle;
        }
    }
    uint64_t code = below;
    if (below < above) {
        /* both differences are exact: the numbers are within a factor of two, or multiples of the smallest value */
        const double down = magnitude - magnitude_of(f, below);
        const double up = magnitude_of(f, above) - magnitude;
        code = up < down || (up == down && above % 2 == 0) ? above : below;
    }
    if (code > tti_check_format_max(f) && !f->infinity) {
        return tti_check_format_nan(f);
    }
    return negative ? code | (all_ones(f) + 1) : code;
}
