/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi */
/*
 * all_reduce with .wire: what it refuses, before a byte is written; and its bits. Those of bf16 are those of an
 * all_reduce of bf16 tensors: rounded once on each rank, folded in f32, rounded once. Those of fp8 are computed here:
 * each rank knows the values of all. They are also within the bound of the header. Over several hosts a sum is rounded
 * once for each host, not for each rank, so that only the bound is compared there.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tutti/overlap.h>
#include <tutti/persistent.h>

#include "api/check.h"
#include "fp8_reference.h"
#include "repetitions.h"

#define RANKS 3

static bool rounds_each_rank(tutti_group *g)
{
    return strcmp(tutti_group_backend(g), "hier") != 0;
}

/* Bits, since equal floats may differ in them. */
static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

/* ---- refused ---- */

#define ON_WIRE(number) TUTTI_CALL(.error = &e, .wire = (number))
#define REFUSED(status, word, call)                                                                                    \
    do {                                                                                                               \
        memset(data, 0x5a, sizeof(data));                                                                              \
        EXPECT_ERROR(&e, status, word, call);                                                                          \
        EXPECT(same_bytes(data, untouched, sizeof(data)));                                                             \
    } while (0)

static void refusals(tutti_group *g, tutti_wire wire)
{
    tutti_error e;
    float data[8];
    float untouched[8];
    int64_t n = 4;
    tutti_work *work = NULL;
    memset(untouched, 0x5a, sizeof(untouched));
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(data + 4, &n, TUTTI_F32);
    REFUSED(TUTTI_INVALID_ARGUMENT, "call.wire is 3", tutti_all_reduce(g, &t, &u, TUTTI_SUM, ON_WIRE(3)));
    REFUSED(TUTTI_INVALID_ARGUMENT, "call.wire is -1", tutti_all_reduce(g, &t, &t, TUTTI_SUM, ON_WIRE(-1)));
    REFUSED(TUTTI_INVALID_ARGUMENT, "call.wire is 9", tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, ON_WIRE(9), &work));
    static const tutti_reduce_op ops[] = {TUTTI_MAX, TUTTI_MIN, TUTTI_PRODUCT};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        REFUSED(TUTTI_UNSUPPORTED, "reduce op", tutti_all_reduce(g, &t, &u, ops[i], ON_WIRE(wire)));
        REFUSED(TUTTI_UNSUPPORTED, "reduce op", tutti_all_reduce_async(g, &t, &u, ops[i], ON_WIRE(wire), &work));
    }
    int64_t one = 1; /* of at most 8 bytes */
    for (tutti_dtype d = 1; d < TUTTI_DTYPE_COUNT; d++) {
        DLTensor other = tutti_tensor_1d(data, &one, d);
        if (d != TUTTI_F32 && tutti_reduce_op_valid(TUTTI_SUM, d)) {
            REFUSED(TUTTI_UNSUPPORTED, tutti_dtype_name(d),
                    tutti_all_reduce(g, &other, &other, TUTTI_SUM, ON_WIRE(wire)));
        }
    }
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_broadcast(g, &t, 0, ON_WIRE(wire)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_reduce(g, &t, &u, TUTTI_SUM, 0, ON_WIRE(wire)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_barrier(g, ON_WIRE(wire)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_send(g, &t, 0, 0, ON_WIRE(wire)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_barrier_async(g, ON_WIRE(wire), &work));
    EXPECT(!work);
    EXPECT_USABLE(g);
}

/* A caller of an older header has no such field. */
static void older_caller(tutti_group *g)
{
    tutti_call call = {.size = 80, .wire = 77};
    int64_t n = 1;
    float x = 1.00390625f; /* no bf16 */
    DLTensor t = tutti_tensor_1d(&x, &n, TUTTI_F32);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, &call));
    EXPECT(x == (float)tutti_group_size(g) * 1.00390625f);
}

/* ---- bits ---- */

static uint16_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if (isnan(x)) {
        return 0x7fc0;
    }
    const uint32_t below = bits & 0xffff;
    const uint32_t kept = bits >> 16;
    return (uint16_t)(kept + (below > 0x8000 || (below == 0x8000 && (kept & 1))));
}

static float value(int32_t rank, int64_t i)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4e38f, 1e-40f, 1.00390625f, -1.01171875f};
    const uint32_t mixed = ((uint32_t)i * 2654435761u) ^ ((uint32_t)rank * 40503u * 65537u);
    return i % 97 < 9 ? special[(i % 97 + rank * 7) % 9] : (float)(int32_t)mixed * 0x1p-24f;
}

static void same_as_bf16(tutti_group *g, int64_t n, tutti_reduce_op op, bool in_place)
{
    const int32_t rank = tutti_group_rank(g);
    const double scale = op == TUTTI_PREMUL_SUM ? 0.5 + rank : 0;
    const size_t room = (size_t)n + 1;
    float *in = malloc(room * sizeof(*in));
    float *out = malloc(room * sizeof(*out));
    uint16_t *narrow = malloc(room * sizeof(*narrow));
    if (!in || !out || !narrow) {
        abort();
    }
    for (int64_t i = 0; i < n; i++) {
        in[i] = value(rank, i);
        narrow[i] = rounded(in[i]);
    }
    float *result = in_place ? in : out;
    DLTensor a = tutti_tensor_1d(in, &n, TUTTI_F32);
    DLTensor b = tutti_tensor_1d(result, &n, TUTTI_F32);
    DLTensor c = tutti_tensor_1d(narrow, &n, TUTTI_BF16);
    EXPECT_OK(tutti_all_reduce(g, &c, &c, op, TUTTI_CALL(.scale = scale)));
    EXPECT_OK(tutti_all_reduce(g, &a, &b, op, TUTTI_CALL(.scale = scale, .wire = TUTTI_WIRE_BF16)));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t wanted = (uint32_t)narrow[i] << 16;
        wrong += !same_bytes(&result[i], &wanted, sizeof(wanted));
    }
    EXPECT(wrong == 0);
    free(in);
    free(out);
    free(narrow);
}

static float sum_of(const float *values, int32_t n)
{
    float sum = values[0];
    for (int32_t r = 1; r < n; r++) {
        sum += values[r];
    }
    return sum;
}

/* The sum over ranks of the largest finite magnitude of a block. */
static double block_of(float (*inputs)[FP8_BLOCK], size_t count, int32_t n)
{
    double block = 0;
    for (int32_t r = 0; r < n; r++) {
        double largest = 0;
        for (size_t k = 0; k < count; k++) {
            const double one = fabs((double)inputs[r][k]);
            largest = isfinite(one) && one > largest ? one : largest;
        }
        block += largest;
    }
    return block;
}

/* Whether `got` is within the header's bound of the result in double, where the inputs and the result are finite. */
static bool within_bound(float (*inputs)[FP8_BLOCK], double block, size_t i, int32_t n, tutti_reduce_op op, float got)
{
    double exact = 0;
    double magnitude = 0;
    for (int32_t r = 0; r < n; r++) {
        exact += (double)inputs[r][i];
        magnitude += fabs((double)inputs[r][i]);
    }
    if (!isfinite(magnitude) || block > 3.2e38) {
        return true;
    }
    const double divisor = op == TUTTI_AVG ? n : 1;
    const double bound = ((0x1p-3 + 0x1p-8 + n * 0x1p-22) * magnitude + 0x1p-16 * block) / divisor + (n + 1) * 0x1p-136;
    return fabs((double)got - exact / divisor) <= bound;
}

/* Each rank's values are rounded block by block, with its factor before; their sum in f32 is rounded once more. */
static void as_computed(tutti_group *g, int64_t n, tutti_reduce_op op, bool in_place)
{
    const int32_t rank = tutti_group_rank(g);
    const int32_t size = tutti_group_size(g);
    const size_t room = (size_t)n + 1;
    float *in = malloc(room * sizeof(*in));
    float *out = malloc(room * sizeof(*out));
    if (!in || !out) {
        abort();
    }
    for (int64_t i = 0; i < n; i++) {
        in[i] = value(rank, i);
    }
    float *result = in_place ? in : out;
    DLTensor a = tutti_tensor_1d(in, &n, TUTTI_F32);
    DLTensor b = tutti_tensor_1d(result, &n, TUTTI_F32);
    const double scale = op == TUTTI_PREMUL_SUM ? 0.5 + rank : 0;
    EXPECT_OK(tutti_all_reduce(g, &a, &b, op, TUTTI_CALL(.scale = scale, .wire = TUTTI_WIRE_FP8)));
    int64_t wrong = 0;
    int64_t off = 0;
    for (int64_t from = 0; from < n; from += FP8_BLOCK) {
        const size_t count = n - from < FP8_BLOCK ? (size_t)(n - from) : FP8_BLOCK;
        float inputs[RANKS][FP8_BLOCK];
        float rounded_ones[RANKS][FP8_BLOCK];
        float sums[FP8_BLOCK];
        for (int32_t r = 0; r < size; r++) {
            for (size_t i = 0; i < count; i++) {
                inputs[r][i] = value(r, from + (int64_t)i) * (op == TUTTI_PREMUL_SUM ? 0.5f + (float)r : 1);
            }
            memcpy(rounded_ones[r], inputs[r], sizeof(inputs[r]));
            fp8_round(rounded_ones[r], count);
        }
        for (size_t i = 0; i < count; i++) {
            float values[RANKS] = {0};
            for (int32_t r = 0; r < size; r++) {
                values[r] = rounded_ones[r][i];
            }
            sums[i] = sum_of(values, size) / (op == TUTTI_AVG ? (float)size : 1);
        }
        fp8_round(sums, count);
        const double block = block_of(inputs, count, size);
        for (size_t i = 0; i < count; i++) {
            const float got = result[from + (int64_t)i];
            wrong += isnan(sums[i]) ? !isnan(got) : !same_bytes(&got, &sums[i], sizeof(got));
            off += !within_bound(inputs, block, i, size, op, got);
        }
    }
    EXPECT(wrong == 0 || !rounds_each_rank(g));
    EXPECT(off == 0);
    free(in);
    free(out);
}

/* Sums that leave f32's range, and blocks of one size each from the smallest numbers to the largest. */
static void fp8_range(tutti_group *g)
{
    enum { SIZES = 277 };
    const int32_t size = tutti_group_size(g);
    const int64_t n = (int64_t)SIZES * FP8_BLOCK;
    float *x = malloc((size_t)n * sizeof(*x));
    if (!x) {
        abort();
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = ldexpf(i % 2 ? -1 : 1, (int)(i / FP8_BLOCK) - 149);
    }
    DLTensor t = tutti_tensor_1d(x, &n, TUTTI_F32);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.wire = TUTTI_WIRE_FP8)));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        const int exponent = (int)(i / FP8_BLOCK) - 149;
        /* powers of two from 2^-136 on are exact; 3 of them are a code, and 3 times 2^127 is infinite */
        const float wanted = exponent < -136 ? 0 : ldexpf(i % 2 ? -(float)size : (float)size, exponent);
        wrong += exponent < -136 ? x[i] != 0 : x[i] != wanted;
    }
    EXPECT(wrong == 0);
    free(x);
}

/* Calls with and without it in turn: the call cache, which knows the others, must not take one for the other. */
static void in_turn(tutti_group *g, tutti_wire wire)
{
    for (int i = 0; i < 12; i++) {
        int64_t n = 1;
        float x = 1.00390625f; /* halfway between two values of bf16: rounds to 1, as in fp8 */
        DLTensor t = tutti_tensor_1d(&x, &n, TUTTI_F32);
        EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, i % 4 == 3 ? TUTTI_CALL(.wire = wire) : NULL));
        EXPECT(x == (float)tutti_group_size(g) * (i % 4 == 3 ? 1 : 1.00390625f));
    }
}

/* Rank 0 runs the object, or starts it and waits. Every other rank makes the ordinary call, so the two have to be the
 * same. */
static tutti_status persistent_once(tutti_group *g, tutti_persistent *p, DLTensor *t, tutti_wire wire, int run)
{
    tutti_error e;
    if (tutti_group_rank(g) != 0) {
        return tutti_all_reduce(g, t, t, TUTTI_SUM, TUTTI_CALL(.wire = wire));
    }
    if (run % 2 == 0) {
        return tutti_persistent_run(p, &e);
    }
    const tutti_status status = tutti_persistent_start(p, &e);
    return status == TUTTI_OK ? tutti_persistent_wait(p, TUTTI_FOREVER, &e) : status;
}

/* Sizes in the arrival lines, in one shot, and above, where the engine converts instead of the core. */
static void persistent(tutti_group *g, tutti_wire wire)
{
    static const int64_t counts[] = {1, 9, 5000, 600001};
    const float size = (float)tutti_group_size(g);
    float *x = malloc(600001 * sizeof(*x));
    EXPECT(x);
    for (int c = 0; x && c < 4; c++) {
        DLTensor t = tutti_tensor_1d(x, &counts[c], TUTTI_F32);
        const tutti_persistent_op op = {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &t, .output = &t};
        tutti_persistent *p = NULL;
        tutti_error e;
        EXPECT_OK(tutti_persistent_init(g, &op, 1, TUTTI_CALL(.wire = wire), &p));
        for (int run = 0; run < 4; run++) {
            for (int64_t i = 0; i < counts[c]; i++) {
                x[i] = 1.00390625f; /* rounds to 1 */
            }
            EXPECT_OK(persistent_once(g, p, &t, wire, run));
            int64_t right = 0;
            for (int64_t i = 0; i < counts[c]; i++) {
                right += x[i] == size;
            }
            EXPECT(right == counts[c]);
        }
        EXPECT_OK(tutti_persistent_release(p, &e));
    }
    free(x);
}

/* At the init, not at a run. */
static void persistent_refusals(tutti_group *g, tutti_wire wire)
{
    tutti_error e;
    int32_t x[4] = {0};
    int64_t n = 4;
    DLTensor floats = tutti_tensor_1d(x, &n, TUTTI_F32);
    DLTensor integers = tutti_tensor_1d(x, &n, TUTTI_I32);
    tutti_persistent *p = NULL;
    tutti_persistent_op op[2] = {
        {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &floats, .output = &floats},
        {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &integers, .output = &integers},
    };
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "operations[1]: all_reduce",
                 tutti_persistent_init(g, op, 2, TUTTI_CALL(.error = &e, .wire = wire), &p));
    op[0].op = TUTTI_MAX;
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "max",
                 tutti_persistent_init(g, op, 1, TUTTI_CALL(.error = &e, .wire = wire), &p));
    op[0].kind = TUTTI_OP_BARRIER;
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "wire",
                 tutti_persistent_init(g, op, 1, TUTTI_CALL(.error = &e, .wire = wire), &p));
    EXPECT(!p);
}

/* ---- the bucketer's ---- */

static void buckets(tutti_group *g, tutti_wire wire)
{
    tutti_error e;
    tutti_bucketer *bucketer = NULL;
    float x[5] = {1.00390625f, 1, 2, 3, 4};
    double y[2] = {1, 2};
    int64_t n = 5;
    int64_t m = 2;
    DLTensor t = tutti_tensor_1d(x, &n, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(y, &m, TUTTI_F64);
    const DLTensor *list[2] = {&t, &u};
    const tutti_bucketer_options *o = TUTTI_BUCKETER_OPTIONS(.wire = wire);
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "f64", tutti_bucketer_create(g, list, 2, o, &bucketer, &e));
    EXPECT_ERROR(
        &e, TUTTI_UNSUPPORTED, "max",
        tutti_bucketer_create(g, list, 1, TUTTI_BUCKETER_OPTIONS(.op = TUTTI_MAX, .wire = wire), &bucketer, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "wire is 5",
                 tutti_bucketer_create(g, list, 1, TUTTI_BUCKETER_OPTIONS(.wire = 5), &bucketer, &e));
    EXPECT(!bucketer);
    EXPECT_OK(tutti_bucketer_create(g, list, 1, o, &bucketer, &e));
    EXPECT_OK(tutti_bucketer_wait(bucketer, &e));
    EXPECT(x[0] == 1 && x[1] == 1 && x[4] == 4);
    EXPECT_OK(tutti_bucketer_destroy(bucketer, &e));
}

static tutti_status rank_main(tutti_group *g, void *user)
{
    static const int64_t counts[] = {0, 1, 2, 31, 1024, 1025, 30011, 600011};
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_PREMUL_SUM};
    (void)user;
    older_caller(g);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const bool one_op = counts[i] > 100000 && !takes_all();
        for (size_t k = 0; k < (one_op ? 1 : sizeof(ops) / sizeof(ops[0])); k++) {
            const bool in_place = one_op || (i + k) % 2 == 0;
            if (rounds_each_rank(g)) {
                same_as_bf16(g, counts[i], ops[k], in_place);
            }
            as_computed(g, counts[i], ops[k], in_place);
        }
    }
    if (rounds_each_rank(g)) {
        fp8_range(g);
    }
    for (tutti_wire wire = TUTTI_WIRE_BF16; wire <= TUTTI_WIRE_FP8; wire++) {
        refusals(g, wire);
        in_turn(g, wire);
        persistent(g, wire);
        persistent_refusals(g, wire);
        buckets(g, wire);
    }
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank_main);
    return test_result();
}
