/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fold of a block, source by source in rank order: f64 in f64, every other float in f32 with one rounding at the
 * end, integers modulo 2^64 (cut to their width at the end, which is the same as wrapping on the way). A step in f32 is
 * one in f64, rounded: f64 has more than twice the digits of f32 and two more, so rounding twice gives the same
 * (S. Figueroa, When is double rounding innocuous?, 1995).
 *
 * The error bound for engines that fold in another order or round on the way: n sources need n - 1 operations, each
 * wrong by at most half a unit of the format relative to a partial result, and no partial result exceeds the sum (the
 * product) of the magnitudes. With the final rounding: n + 1 units of the format times that magnitude.
 */
#include "check/reference/fold.h"

#include <string.h>
#include <tutti/backend.h>

#include "check/reference/float_format.h"

static bool is_signed(tutti_dtype dtype)
{
    return dtype >= TUTTI_I8 && dtype <= TUTTI_I64;
}

void tti_check_fold_start(struct tti_check_fold *fold, tutti_dtype dtype, tutti_reduce_op op, size_t count,
                          bool bounded)
{
    fold->dtype = dtype;
    fold->op = op;
    fold->sources = 0;
    fold->count = count;
    fold->wire_block = TTI_CHECK_WIRE_BLOCK;
    memset(fold->peaks, 0, sizeof(fold->peaks));
    fold->bounded = bounded && tti_check_format_of(dtype) != NULL;
}

/* Apart from the additions, so that no compiler makes a fused multiply-add of the two. */
static __attribute__((noinline)) double product(double a, double b)
{
    return a * b;
}

/* IEEE 754-2019 minimum, as the standard words it; the maximum is that of the negated numbers, negated. */
static double minimum(double a, double b)
{
    if (a != a || b != b) {
        return __builtin_nan("");
    }
    if (a == b) {
        return __builtin_signbit(a) ? a : b;
    }
    return a < b ? a : b;
}

static double combine_float(tutti_reduce_op op, double a, double b)
{
    switch (op) {
    case TUTTI_PRODUCT:
        return product(a, b);
    case TUTTI_MIN:
        return minimum(a, b);
    case TUTTI_MAX:
        return -minimum(-a, -b);
    default:
        return a + b;
    }
}

/* To the format in which the fold accumulates. */
static double rounded(const struct tti_check_fold *fold, double x)
{
    return fold->dtype == TUTTI_F64 ? x : (double)(float)x;
}

static uint64_t combine_integer(tutti_reduce_op op, bool with_sign, uint64_t a, uint64_t b)
{
    const bool less = with_sign ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case TUTTI_PRODUCT:
        return a * b;
    case TUTTI_MIN:
        return less ? a : b;
    case TUTTI_MAX:
        return less ? b : a;
    case TUTTI_BAND:
        return a & b;
    case TUTTI_BOR:
        return a | b;
    case TUTTI_BXOR:
        return a ^ b;
    case TUTTI_LAND:
        return a != 0 && b != 0;
    case TUTTI_LOR:
        return a != 0 || b != 0;
    default:
        return a + b;
    }
}

static uint64_t combine_bool(tutti_reduce_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case TUTTI_PRODUCT:
    case TUTTI_MIN:
    case TUTTI_BAND:
    case TUTTI_LAND:
        return a & b;
    case TUTTI_BXOR:
        return a ^ b;
    default:
        return a | b;
    }
}

static void add_bounds(struct tti_check_fold *fold, size_t i, double value)
{
    const long double x = value;
    const long double magnitude = x < 0 ? -x : x;
    const bool product = fold->op == TUTTI_PRODUCT;
    const bool finite = magnitude < 1e4900L;
    long double *const largest = &fold->largest[i / fold->wire_block];
    *largest = finite && magnitude > *largest ? magnitude : *largest;
    if (fold->sources == 0) {
        fold->most[i] = product;
        fold->least[i] = 1;
    }
    if (finite && product) {
        fold->most[i] *= magnitude > 1 ? magnitude : 1;
        fold->least[i] *= magnitude < 1 ? magnitude : 1;
    } else if (finite) {
        fold->most[i] += magnitude;
    }
    if (fold->sources == 0) {
        fold->wide[i] = x;
        fold->magnitude[i] = magnitude;
    } else if (fold->op == TUTTI_PRODUCT) {
        fold->wide[i] *= x;
        fold->magnitude[i] *= magnitude;
    } else if (fold->op == TUTTI_MIN || fold->op == TUTTI_MAX) {
        const long double before = fold->wide[i];
        const bool better = fold->op == TUTTI_MIN ? x < before : x > before;
        fold->wide[i] = before != before || better ? x : before;
    } else {
        fold->wide[i] += x;
        fold->magnitude[i] += magnitude;
    }
}

static void add_float(struct tti_check_fold *fold, const struct tti_check_format *f, const unsigned char *source,
                      double scale)
{
    const size_t item = tutti_dtype_size(fold->dtype);
    memset(fold->largest, 0, sizeof(fold->largest));
    for (size_t i = 0; i < fold->count; i++) {
        double x = tti_check_format_decode(f, tti_check_bits_load(source + i * item, item));
        if (fold->op == TUTTI_PREMUL_SUM) {
            x = rounded(fold, product(x, rounded(fold, scale)));
        }
        if (fold->bounded) {
            add_bounds(fold, i, x);
        }
        double *a = &fold->accumulator.f64[i];
        *a = fold->sources == 0 ? x : rounded(fold, combine_float(fold->op, *a, x));
    }
    for (size_t b = 0; b * fold->wire_block < fold->count; b++) {
        fold->peaks[b] += fold->largest[b];
    }
}

static void add_integer(struct tti_check_fold *fold, const unsigned char *source, double scale)
{
    const size_t item = tutti_dtype_size(fold->dtype);
    const bool with_sign = is_signed(fold->dtype);
    const int unused = 64 - 8 * (int)item;
    for (size_t i = 0; i < fold->count; i++) {
        uint64_t x = tti_check_bits_load(source + i * item, item);
        if (with_sign) {
            x = (uint64_t)((int64_t)(x << unused) >> unused);
        }
        if (fold->op == TUTTI_PREMUL_SUM) {
            x *= (uint64_t)(int64_t)scale;
        } else if (fold->op == TUTTI_LAND || fold->op == TUTTI_LOR) {
            x = x != 0;
        }
        uint64_t *a = &fold->accumulator.u64[i];
        if (fold->sources == 0) {
            *a = x;
        } else if (fold->dtype == TUTTI_BOOL) {
            *a = combine_bool(fold->op, *a, x);
        } else {
            *a = combine_integer(fold->op, with_sign, *a, x);
        }
    }
}

void tti_check_fold_add(struct tti_check_fold *fold, const void *source, double scale)
{
    const struct tti_check_format *f = tti_check_format_of(fold->dtype);
    if (fold->dtype == TUTTI_F32 && fold->op == TUTTI_SUM && !fold->bounded) {
        /* the same as below, faster: for tens of MiB */
        const unsigned char *bytes = source;
        for (size_t i = 0; i < fold->count; i++) {
            float x;
            memcpy(&x, bytes + 4 * i, 4);
            fold->accumulator.f64[i] = fold->sources == 0 ? x : (float)fold->accumulator.f64[i] + x;
        }
    } else if (f) {
        add_float(fold, f, source, scale);
    } else {
        add_integer(fold, source, scale);
    }
    fold->sources++;
}

static uint64_t finish_integer(const struct tti_check_fold *fold, size_t i)
{
    const uint64_t a = fold->accumulator.u64[i];
    if (fold->op != TUTTI_AVG) {
        return a;
    }
    if (is_signed(fold->dtype)) {
        return (uint64_t)((int64_t)a / fold->sources);
    }
    return a / (uint64_t)fold->sources;
}

static uint64_t finish_float(const struct tti_check_fold *fold, const struct tti_check_format *f, size_t i)
{
    const double a = fold->accumulator.f64[i];
    const double value = rounded(fold, fold->op == TUTTI_AVG ? a / fold->sources : a);
    const float narrow = (float)value;
    if (value != value) {
        return tti_check_format_nan(f);
    }
    return fold->dtype == TUTTI_F64   ? tti_check_bits_load(&value, 8)
           : fold->dtype == TUTTI_F32 ? tti_check_bits_load(&narrow, 4)
                                      : tti_check_format_encode(f, value);
}

void tti_check_fold_finish(const struct tti_check_fold *fold, void *out)
{
    const struct tti_check_format *f = tti_check_format_of(fold->dtype);
    const size_t item = tutti_dtype_size(fold->dtype);
    unsigned char *bytes = out;
    for (size_t i = 0; i < fold->count; i++) {
        tti_check_bits_store(bytes + i * item, item, f ? finish_float(fold, f, i) : finish_integer(fold, i));
    }
}

void tti_check_fold_wire(struct tti_check_fold *fold, tutti_wire wire, uint32_t capabilities)
{
    fold->wire = wire;
    fold->bounded = fold->bounded || wire != TUTTI_WIRE_FULL;
    /* MPI alone does so; hier on MPI promises as little as MPI */
    fold->rounds_often = !(capabilities & TUTTI_CAP_SAME_BITS);
}

/* The bounds of tutti/collectives.h. Factors of a weighted sum are at most 4, and so is what they make of the error of
 * bf16 below the normal numbers. */
static long double wire_bound(const struct tti_check_fold *fold, size_t i)
{
    const long double n = fold->sources;
    const long double divisor = fold->op == TUTTI_AVG ? n : 1;
    const long double magnitude = fold->magnitude[i] / divisor;
    if (fold->wire == TUTTI_WIRE_FP8) {
        const long double peak = fold->peaks[i / fold->wire_block] / divisor;
        return (0x1p-3L + 0x1p-8L + n * 0x1p-22L) * magnitude + 0x1p-16L * peak + (n + 1) * 0x1p-136L;
    }
    return ((fold->rounds_often ? n : 1) * 0x1p-7L + n * 0x1p-23L) * magnitude +
           (fold->op == TUTTI_PREMUL_SUM ? 4 : 1) * (n + 1) * 0x1p-134L;
}

bool tti_check_fold_close(const struct tti_check_fold *fold, size_t i, uint64_t exact, uint64_t got)
{
    if (exact == got) {
        return true;
    }
    const struct tti_check_format *f = tti_check_format_of(fold->dtype);
    if (!f || !fold->bounded) {
        return false;
    }
    const long double largest = tti_check_format_decode(f, tti_check_format_max(f));
    const long double least = tti_check_format_decode(f, 1);
    const bool got_nan = tti_check_format_is_nan(f, got);
    const long double value = got_nan ? 0 : tti_check_format_decode(f, got);
    if (fold->op == TUTTI_MIN || fold->op == TUTTI_MAX) {
        /* no rounding there; what may differ is the sign of zero and which NaN it is */
        const bool exact_nan = tti_check_format_is_nan(f, exact);
        if (exact_nan && fold->drops_nan && fold->wide[i] == fold->wide[i]) {
            return got_nan || value == fold->wide[i]; /* the engine's own, or, where it has none, through host memory */
        }
        return exact_nan ? got_nan : !got_nan && value == (long double)tti_check_format_decode(f, exact);
    }
    long double wide = fold->wide[i];
    long double magnitude = fold->magnitude[i];
    if (fold->op == TUTTI_PRODUCT && wide == wide &&
        fold->least[i] < (long double)tti_check_format_decode(f, (uint64_t)1 << f->mantissa)) {
        return true; /* in some order a partial result loses its digits, or is 0 and meets an infinity */
    }
    /* bf16 on the wire rounds before the factor of a weighted sum, at least 0.5, is applied */
    const int margin = fold->wire != TUTTI_WIRE_FULL ? 4 : 2;
    if (wide == wide && margin * fold->most[i] >= largest) {
        return true; /* a partial result may overflow in one order and not in another, and then meet an infinity */
    }
    if (wide != wide || magnitude > 1e4900L) {
        /* a NaN or an infinity went in: the kind of the result does not depend on the order */
        return wide != wide ? got_nan : tti_check_format_is_nan(f, exact) ? got_nan : !got_nan && value == wide;
    }
    const long double n = fold->sources;
    if (fold->op == TUTTI_AVG) {
        wide /= n;
    }
    const long double unit = 1.0L / (long double)((uint64_t)1 << f->mantissa);
    const long double bound =
        fold->wire != TUTTI_WIRE_FULL ? wire_bound(fold, i) : (n + 1) * (unit * magnitude + least);
    const long double difference = value > wide ? value - wide : wide - value;
    return !got_nan && difference <= bound;
}
