/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results, against a computation of its own: narrow floats are looked up in a table of all their values and rounded by
 * searching it, integers are computed in 128 bits.
 */
#include <math.h>
#include <string.h>

#include "nccl.h"
#include "nccl_cases.h"

/* ---- the reference ---- */

struct narrow {
    int exponent_bits;
    int mantissa_bits;
    unsigned finite; /* how many values from +0 on are finite */
    bool saturates;
    float *values; /* of the positive ones */
};

static struct narrow narrows[] = {[ncclFloat16] = {5, 10, 0x7c00, false, NULL},
                                  [ncclBfloat16] = {8, 7, 0x7f80, false, NULL},
                                  [ncclFloat8e4m3] = {4, 3, 0x7f, true, NULL},
                                  [ncclFloat8e5m2] = {5, 2, 0x7c, true, NULL}};

static const struct narrow *narrow_of(int type)
{
    struct narrow *n = &narrows[type];
    if (!n->values) {
        n->values = malloc((n->finite + 1) * sizeof(float));
        const int bias = (1 << (n->exponent_bits - 1)) - 1;
        for (unsigned i = 0; i <= n->finite; i++) { /* one more: where rounding up would go beyond the largest */
            const unsigned exponent = i >> n->mantissa_bits;
            const double fraction = (double)(i & ((1u << n->mantissa_bits) - 1)) / (1 << n->mantissa_bits);
            n->values[i] =
                (float)(exponent == 0 ? fraction * pow(2, 1 - bias) : (1 + fraction) * pow(2, (int)exponent - bias));
        }
    }
    return n;
}

static float value_of(int type, unsigned bits)
{
    const struct narrow *n = narrow_of(type);
    const unsigned sign = 1u << (n->exponent_bits + n->mantissa_bits);
    const unsigned magnitude = bits & (sign - 1);
    const float value = magnitude < n->finite                     ? n->values[magnitude]
                        : magnitude == n->finite && !n->saturates ? INFINITY
                                                                  : NAN;
    return bits & sign ? -value : value;
}

static unsigned nearest(int type, double value)
{
    const struct narrow *n = narrow_of(type);
    const unsigned sign = signbit(value) ? 1u << (n->exponent_bits + n->mantissa_bits) : 0;
    const double magnitude = fabs(value);
    unsigned low = 0;
    unsigned high = n->finite;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if ((double)n->values[middle] <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    /* values[finite] of bf16 is beyond f32: 2^128. */
    const double above = high == n->finite && n->exponent_bits == 8 ? 0x1p128 : (double)n->values[high];
    const double below = (double)n->values[low];
    const bool up = magnitude - below > above - magnitude || (magnitude - below == above - magnitude && low % 2);
    const unsigned bits = up ? high : low;
    return sign | (bits == n->finite && n->saturates ? n->finite - 1 : bits);
}

static size_t size_of(int type)
{
    return (const size_t[]){1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}[type];
}

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static wide integer_of(int type, const void *element)
{
    int8_t i8;
    uint8_t u8;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    switch (type) {
    case ncclInt8:
        return memcpy(&i8, element, 1), i8;
    case ncclUint8:
        return memcpy(&u8, element, 1), u8;
    case ncclInt32:
        return memcpy(&i32, element, 4), i32;
    case ncclUint32:
        return memcpy(&u32, element, 4), u32;
    case ncclInt64:
        return memcpy(&i64, element, 8), i64;
    default:
        return memcpy(&u64, element, 8), u64;
    }
}

static double float_of(int type, const void *element)
{
    double d;
    float f;
    uint16_t u16;
    uint8_t u8;
    if (type == ncclFloat64) {
        return memcpy(&d, element, 8), d;
    }
    if (type == ncclFloat32) {
        return memcpy(&f, element, 4), (double)f;
    }
    if (size_of(type) == 2) {
        return memcpy(&u16, element, 2), (double)value_of(type, u16);
    }
    return memcpy(&u8, element, 1), (double)value_of(type, u8);
}

/* Rounds to the type. A result of two of its values is exact in f64, except f32 sums, whose double rounding is harmless
 * (53 >= 2 * 24 + 2). */
static void put_float(int type, void *element, double value)
{
    const float single = (float)value;
    if (type == ncclFloat64) {
        memcpy(element, &value, 8);
    } else if (type == ncclFloat32) {
        memcpy(element, &single, 4);
    } else if (size_of(type) == 2) {
        const uint16_t bits = (uint16_t)nearest(type, value);
        memcpy(element, &bits, 2);
    } else {
        const uint8_t bits = (uint8_t)nearest(type, (double)value_of(ncclFloat16, nearest(ncclFloat16, value)));
        memcpy(element, &bits, 1);
    }
}

static wide integer_step(int op, wide a, wide b)
{
    return op == ncclProd  ? (wide)((unsigned_wide)a * (unsigned_wide)b)
           : op == ncclMax ? (a > b ? a : b)
           : op == ncclMin ? (a < b ? a : b)
                           : a + b;
}

static double float_step(int op, double a, double b)
{
    return op == ncclProd ? a * b : op == ncclMax ? fmax(a, b) : op == ncclMin ? fmin(a, b) : a + b;
}

/* The result of one element; in[rank] points to the rank's input. scalar: of a pre-multiplied sum, else NULL. */
static void expect(int type, int op, int ranks, const unsigned char *in[], const void *scalar, unsigned char *out)
{
    const size_t size = size_of(type);
    unsigned char part[8];
    for (int rank = 0; rank < ranks; rank++) {
        memcpy(part, in[rank], size);
        if (type <= ncclUint64) {
            if (scalar) {
                const wide product = integer_step(ncclProd, integer_of(type, part), integer_of(type, scalar));
                memcpy(part, &product, size);
            }
            const wide sum =
                rank == 0 ? integer_of(type, part) : integer_step(op, integer_of(type, out), integer_of(type, part));
            memcpy(out, &sum, size); /* little endian: wraps */
        } else {
            if (scalar) {
                put_float(type, part, float_of(type, part) * float_of(type, scalar));
            }
            if (rank == 0) {
                memcpy(out, part, size);
            } else {
                put_float(type, out, float_step(op, float_of(type, out), float_of(type, part)));
            }
        }
    }
    if (type <= ncclUint64 && op == ncclAvg) {
        const wide quotient = integer_of(type, out) / ranks;
        memcpy(out, &quotient, size);
    }
}

/* ---- inputs ---- */

static uint64_t state;

static uint64_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 16;
}

/* Any bits for integers; floats that are finite, of both signs and many sizes. */
static void fill(int type, unsigned char *elements, size_t count, int rank)
{
    const size_t size = size_of(type);
    state = (uint64_t)rank * 7919 + (uint64_t)type + 1;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = next_random() ^ next_random() << 40;
        if (type == ncclFloat32 || type == ncclFloat64) {
            put_float(type, elements + i * size, ((double)(bits % 2000001) - 1000000) * pow(2, (int)(bits >> 32) % 20));
        } else if (type > ncclUint64) {
            const struct narrow *n = narrow_of(type);
            const unsigned sign = bits & 1 ? 1u << (n->exponent_bits + n->mantissa_bits) : 0;
            const uint16_t value = (uint16_t)(sign | (unsigned)((bits >> 8) % n->finite));
            memcpy(elements + i * size, &value, size);
        } else {
            memcpy(elements + i * size, &bits, size);
        }
    }
}

static bool is_nan(int type, const unsigned char *element)
{
    return type > ncclUint64 && isnan(float_of(type, element));
}

static bool same(int type, const unsigned char *a, const unsigned char *b)
{
    return memcmp(a, b, size_of(type)) == 0 || (is_nan(type, a) && is_nan(type, b));
}

/* ---- the cases ---- */

/* The inputs of all ranks, for the reference. */
struct inputs {
    int type;
    size_t count; /* of one rank */
    unsigned char *of[MAX_RANKS];
};

static struct inputs make_inputs(struct rank *t, int type, size_t count)
{
    struct inputs inputs = {.type = type, .count = count};
    for (int rank = 0; rank < t->ranks; rank++) {
        inputs.of[rank] = malloc(count * size_of(type));
        fill(type, inputs.of[rank], count, rank);
    }
    return inputs;
}

static void free_inputs(struct rank *t, struct inputs *inputs)
{
    for (int rank = 0; rank < t->ranks; rank++) {
        free(inputs->of[rank]);
    }
}

/* `got` shall be the reduced elements from `from` on. */
static void check_reduced(struct rank *t, const struct inputs *inputs, int op, const void *scalar, size_t from,
                          const unsigned char *got, size_t count)
{
    const size_t size = size_of(inputs->type);
    unsigned char wanted[8];
    for (size_t i = 0; i < count; i++) {
        const unsigned char *in[MAX_RANKS];
        for (int rank = 0; rank < t->ranks; rank++) {
            in[rank] = inputs->of[rank] + (from + i) * size;
        }
        expect(inputs->type, op, t->ranks, in, scalar, wanted);
        if (!same(inputs->type, wanted, got + i * size)) {
            fprintf(stderr, "rank %d: type %d op %d element %zu of %zu\n", t->rank, inputs->type, op, i, count);
        }
        CHECK(same(inputs->type, wanted, got + i * size));
    }
}

/* 1/ranks in the type, which is what the average of floats multiplies with; NULL for other operations. */
static const void *average_scalar(struct rank *t, int type, int op, unsigned char scalar[8])
{
    if (op != ncclAvg || type <= ncclUint64) {
        return NULL;
    }
    if (size_of(type) == 1) {
        const uint8_t bits = (uint8_t)nearest(type, (double)(float)(1.0 / t->ranks));
        memcpy(scalar, &bits, 1);
    } else {
        put_float(type, scalar, type == ncclFloat64 ? 1.0 / t->ranks : (double)(float)(1.0 / t->ranks));
    }
    return scalar;
}

static void reduce_all_ways(struct rank *t, ncclComm_t comm, int type, int op, size_t count)
{
    const size_t size = size_of(type);
    const size_t all = count * (size_t)t->ranks;
    const int root = t->ranks - 1;
    struct inputs inputs = make_inputs(t, type, all);
    unsigned char scalar[8];
    const void *factor = average_scalar(t, type, op, scalar);
    unsigned char *got = malloc(all * size);
    void *in = device_alloc(t, all * size);
    void *out = device_alloc(t, all * size);

    device_put(t, in, inputs.of[t->rank], all * size);
    CHECK(t->AllReduce(in, out, all, (ncclDataType_t)type, (ncclRedOp_t)op, comm, t->stream) == ncclSuccess);
    device_get(t, got, out, all * size);
    check_reduced(t, &inputs, op, factor, 0, got, all);

    CHECK(t->ReduceScatter(in, out, count, (ncclDataType_t)type, (ncclRedOp_t)op, comm, t->stream) == ncclSuccess);
    device_get(t, got, out, count * size);
    check_reduced(t, &inputs, op, factor, count * (size_t)t->rank, got, count);

    CHECK(t->Reduce(in, t->rank == root ? out : NULL, all, (ncclDataType_t)type, (ncclRedOp_t)op, root, comm,
                    t->stream) == ncclSuccess);
    if (t->rank == root) {
        device_get(t, got, out, all * size);
        check_reduced(t, &inputs, op, factor, 0, got, all);
    }
    /* In place. */
    CHECK(t->AllReduce(in, in, all, (ncclDataType_t)type, (ncclRedOp_t)op, comm, t->stream) == ncclSuccess);
    device_get(t, got, in, all * size);
    check_reduced(t, &inputs, op, factor, 0, got, all);
    device_put(t, in, inputs.of[t->rank], all * size);
    unsigned char *mine = (unsigned char *)in + (size_t)t->rank * count * size;
    CHECK(t->ReduceScatter(in, mine, count, (ncclDataType_t)type, (ncclRedOp_t)op, comm, t->stream) == ncclSuccess);
    device_get(t, got, mine, count * size);
    check_reduced(t, &inputs, op, factor, count * (size_t)t->rank, got, count);

    device_free(t, in);
    device_free(t, out);
    free(got);
    free_inputs(t, &inputs);
}

static void reduce_pre_multiplied(struct rank *t, ncclComm_t comm, int type, bool on_device)
{
    enum { COUNT = 700 };
    const size_t size = size_of(type);
    struct inputs inputs = make_inputs(t, type, COUNT);
    unsigned char scalar[8];
    unsigned char got[COUNT * 8];
    void *in = device_alloc(t, COUNT * size);
    void *on = device_alloc(t, size);
    ncclRedOp_t op;
    fill(type, scalar, 1, 99);
    device_put(t, in, inputs.of[t->rank], COUNT * size);
    device_put(t, on, scalar, size);
    CHECK(t->RedOpCreatePreMulSum(&op, on_device ? on : scalar, (ncclDataType_t)type,
                                  on_device ? ncclScalarDevice : ncclScalarHostImmediate, comm) == ncclSuccess);
    CHECK(t->AllReduce(in, in, COUNT, (ncclDataType_t)type, op, comm, t->stream) == ncclSuccess);
    CHECK(t->AllReduce(in, in, COUNT, (ncclDataType_t)(type ? 0 : 1), op, comm, t->stream) == ncclInvalidArgument);
    CHECK(t->RedOpDestroy(op, comm) == ncclSuccess);
    CHECK(t->RedOpDestroy(op, comm) == ncclInvalidArgument);
    CHECK(t->AllReduce(in, in, COUNT, (ncclDataType_t)type, op, comm, t->stream) == ncclInvalidArgument);
    device_get(t, got, in, COUNT * size);
    check_reduced(t, &inputs, ncclSum, scalar, 0, got, COUNT);
    device_free(t, in);
    device_free(t, on);
    free_inputs(t, &inputs);
}

void case_reductions(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    const int types = t->version < 21000 ? ncclBfloat16 : t->version < 22400 ? ncclFloat8e4m3 : ncclNumTypes;
    const int ops = t->version < 21000 ? ncclAvg : ncclNumOps;
    for (int type = 0; type < types; type++) {
        for (int op = 0; op < ops; op++) {
            reduce_all_ways(t, comm, type, op, 301);
        }
        if (t->RedOpCreatePreMulSum) {
            reduce_pre_multiplied(t, comm, type, false);
            reduce_pre_multiplied(t, comm, type, true);
        }
    }
    reduce_all_ways(t, comm, ncclFloat32, ncclSum, 1);
    reduce_all_ways(t, comm, ncclFloat32, ncclSum, 40000); /* several chunks */
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}
