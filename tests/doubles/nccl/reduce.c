/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One element at a time, in three kinds: integers as 64 bits that are cut when stored (which is what wrapping means),
 * f64, and everything narrower as f32 that is rounded when stored. Plain rather than fast: no test measures a double.
 */
#include "reduce.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "abi.h"

/* A floating-point format of at most 16 bits. */
struct format {
    int exponent_bits;
    int mantissa_bits;
    uint32_t largest;  /* the bits of the largest finite number */
    uint32_t infinity; /* or the largest again, if the type saturates */
    uint32_t nan;
    bool by_half; /* results are rounded to f16 first */
};

static const struct format formats[] = {
    [ncclFloat16] = {5, 10, 0x7bff, 0x7c00, 0x7fff, false},
    [ncclBfloat16] = {8, 7, 0x7f7f, 0x7f80, 0x7fff, false},
    [ncclFloat8e4m3] = {4, 3, 0x7e, 0x7e, 0x7f, true},
    [ncclFloat8e5m2] = {5, 2, 0x7b, 0x7b, 0x7f, true},
};

static float widen(const struct format *format, uint32_t bits)
{
    const int bias = (1 << (format->exponent_bits - 1)) - 1;
    const uint32_t sign_bit = 1u << (format->exponent_bits + format->mantissa_bits);
    const uint32_t magnitude = bits & (sign_bit - 1);
    const int exponent = (int)(magnitude >> format->mantissa_bits);
    const uint32_t mantissa = magnitude & ((1u << format->mantissa_bits) - 1);
    float value;
    if (magnitude > format->largest) {
        /* e4m3 has no infinity: it ends with a number whose mantissa is not full. */
        value = mantissa == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        value = ldexpf((float)mantissa, 1 - bias - format->mantissa_bits);
    } else {
        value = ldexpf((float)(mantissa | 1u << format->mantissa_bits), exponent - bias - format->mantissa_bits);
    }
    return bits & sign_bit ? -value : value;
}

/* To nearest, ties to even. */
static uint32_t narrow(const struct format *format, float value)
{
    const int bias = (1 << (format->exponent_bits - 1)) - 1;
    const uint32_t sign = signbit(value) ? 1u << (format->exponent_bits + format->mantissa_bits) : 0;
    if (isnan(value)) {
        return format->nan;
    }
    if (isinf(value)) {
        return sign | format->infinity;
    }
    const double magnitude = fabs((double)value);
    int exponent = magnitude > 0 ? ilogb(magnitude) : 1 - bias;
    if (exponent < 1 - bias) {
        exponent = 1 - bias;
    }
    if (exponent > bias + 1) {
        return sign | format->infinity;
    }
    /* In units of the last place; the leading bit of a normal number, and a carry, go into the exponent by the
     * addition. */
    const uint32_t units = (uint32_t)rint(ldexp(magnitude, format->mantissa_bits - exponent));
    const uint32_t bits = ((uint32_t)(exponent + bias - 1) << format->mantissa_bits) + units;
    return sign | (bits > format->largest ? format->infinity : bits);
}

static bool is_integer(int type)
{
    return type <= ncclUint64;
}

static bool is_signed(int type)
{
    return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

/* ---- integers ---- */

static uint64_t load_integer(int type, const unsigned char *from)
{
    switch (type) {
    case ncclInt8:
        return (uint64_t)(int64_t)(int8_t)*from;
    case ncclUint8:
        return *from;
    case ncclInt32: {
        int32_t value;
        memcpy(&value, from, sizeof(value));
        return (uint64_t)(int64_t)value;
    }
    case ncclUint32: {
        uint32_t value;
        memcpy(&value, from, sizeof(value));
        return value;
    }
    default: {
        uint64_t value;
        memcpy(&value, from, sizeof(value));
        return value;
    }
    }
}

static void store_integer(int type, unsigned char *to, uint64_t value)
{
    const uint8_t byte = (uint8_t)value;
    const uint32_t word = (uint32_t)value;
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        *to = byte;
        break;
    case ncclInt32:
    case ncclUint32:
        memcpy(to, &word, sizeof(word));
        break;
    default:
        memcpy(to, &value, sizeof(value));
    }
}

static uint64_t combine_integers(enum tti_function function, bool with_sign, uint64_t a, uint64_t b)
{
    const bool less = with_sign ? (int64_t)a < (int64_t)b : a < b;
    switch (function) {
    case TTI_PROD:
        return a * b;
    case TTI_MAX:
        return less ? b : a;
    case TTI_MIN:
        return less ? a : b;
    default:
        return a + b;
    }
}

static uint64_t divide_integer(bool with_sign, uint64_t value, uint32_t divisor)
{
    if (with_sign && (int64_t)value < 0) {
        return 0 - (0 - value) / divisor;
    }
    return value / divisor;
}

/* ---- floats ---- */

static double load_float(int type, const unsigned char *from)
{
    if (type == ncclFloat64) {
        double value;
        memcpy(&value, from, sizeof(value));
        return value;
    }
    if (type == ncclFloat32) {
        float value;
        memcpy(&value, from, sizeof(value));
        return (double)value;
    }
    if (type == ncclFloat8e4m3 || type == ncclFloat8e5m2) {
        return (double)widen(&formats[type], *from);
    }
    uint16_t bits;
    memcpy(&bits, from, sizeof(bits));
    return (double)widen(&formats[type], bits);
}

static void store_float(int type, unsigned char *to, double value)
{
    if (type == ncclFloat64) {
        memcpy(to, &value, sizeof(value));
        return;
    }
    float single = (float)value;
    if (type == ncclFloat32) {
        memcpy(to, &single, sizeof(single));
        return;
    }
    if (formats[type].by_half) {
        single = widen(&formats[ncclFloat16], narrow(&formats[ncclFloat16], single));
        *to = (unsigned char)narrow(&formats[type], single);
        return;
    }
    const uint16_t bits = (uint16_t)narrow(&formats[type], single);
    memcpy(to, &bits, sizeof(bits));
}

/* The one of two numbers, NaN only if both are. */
static double extreme(bool largest, double a, double b)
{
    if (isnan(a)) {
        return b;
    }
    if (isnan(b)) {
        return a;
    }
    if (a == b) {
        return !signbit(a) == largest ? a : b; /* +0 is larger than -0 */
    }
    return (a > b) == largest ? a : b;
}

/* The sum and the product of two f32 are rounded once, to f32, by computing them as f32: f64 would round twice. */
static double combine_floats(enum tti_function function, bool wide, double a, double b)
{
    switch (function) {
    case TTI_PROD:
        return wide ? a * b : (double)((float)a * (float)b);
    case TTI_MAX:
        return extreme(true, a, b);
    case TTI_MIN:
        return extreme(false, a, b);
    default:
        return wide ? a + b : (double)((float)a + (float)b);
    }
}

/* ---- elements ---- */

static size_t size_of(int type)
{
    static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

static void element(enum tti_function function, int type, unsigned char *out, const unsigned char *a,
                    const unsigned char *b)
{
    if (is_integer(type)) {
        store_integer(type, out,
                      combine_integers(function, is_signed(type), load_integer(type, a), load_integer(type, b)));
    } else {
        store_float(type, out, combine_floats(function, type == ncclFloat64, load_float(type, a), load_float(type, b)));
    }
}

void tti_reduce_reciprocal(int type, int divisor, unsigned char scalar[8])
{
    memset(scalar, 0, 8);
    if (type == ncclFloat64) {
        const double value = 1.0 / divisor;
        memcpy(scalar, &value, sizeof(value));
    } else if (type == ncclFloat8e4m3 || type == ncclFloat8e5m2) {
        scalar[0] = (unsigned char)narrow(&formats[type], (float)(1.0 / divisor)); /* on the CPU, and not by f16 */
    } else {
        store_float(type, scalar, (double)(float)(1.0 / divisor));
    }
}

void tti_reduce_before(const struct tti_reduction *reduction, int type, void *out, const void *in, size_t count)
{
    const size_t size = size_of(type);
    if (reduction->function != TTI_PRE_MULTIPLIED) {
        memmove(out, in, count * size);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        element(TTI_PROD, type, (unsigned char *)out + i * size, (const unsigned char *)in + i * size,
                reduction->scalar);
    }
}

void tti_reduce_next(const struct tti_reduction *reduction, int type, void *out, const void *in, size_t count)
{
    const size_t size = size_of(type);
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = (unsigned char *)out + i * size;
        element(reduction->function, type, to, to, (const unsigned char *)in + i * size);
    }
}

void tti_reduce_last(const struct tti_reduction *reduction, int type, void *out, size_t count)
{
    const size_t size = size_of(type);
    if (reduction->function != TTI_DIVIDED) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = (unsigned char *)out + i * size;
        store_integer(type, to, divide_integer(is_signed(type), load_integer(type, to), reduction->divisor));
    }
}
