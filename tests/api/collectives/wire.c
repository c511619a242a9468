/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,gloo,mpi */
/*
 * all_reduce with .wire: what it refuses, before a byte is written; and its bits, which are those of an all_reduce of
 * bf16 tensors: rounded once on each rank, folded in f32, rounded once.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tutti/overlap.h>
#include <tutti/persistent.h>

#include "api/check.h"

#define RANKS 3
#define WIRE  TUTTI_CALL(.wire = TUTTI_WIRE_BF16)

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

static void refusals(tutti_group *g)
{
    tutti_error e;
    float data[8];
    float untouched[8];
    int64_t n = 4;
    tutti_work *work = NULL;
    memset(untouched, 0x5a, sizeof(untouched));
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_F32);
    DLTensor u = tutti_tensor_1d(data + 4, &n, TUTTI_F32);
    REFUSED(TUTTI_INVALID_ARGUMENT, "call.wire is 2", tutti_all_reduce(g, &t, &u, TUTTI_SUM, ON_WIRE(2)));
    REFUSED(TUTTI_INVALID_ARGUMENT, "call.wire is -1", tutti_all_reduce(g, &t, &t, TUTTI_SUM, ON_WIRE(-1)));
    REFUSED(TUTTI_INVALID_ARGUMENT, "call.wire is 9", tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, ON_WIRE(9), &work));
    static const tutti_reduce_op ops[] = {TUTTI_MAX, TUTTI_MIN, TUTTI_PRODUCT};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        REFUSED(TUTTI_UNSUPPORTED, "reduce op", tutti_all_reduce(g, &t, &u, ops[i], ON_WIRE(TUTTI_WIRE_BF16)));
        REFUSED(TUTTI_UNSUPPORTED, "reduce op",
                tutti_all_reduce_async(g, &t, &u, ops[i], ON_WIRE(TUTTI_WIRE_BF16), &work));
    }
    int64_t one = 1; /* of at most 8 bytes */
    for (tutti_dtype d = 1; d < TUTTI_DTYPE_COUNT; d++) {
        DLTensor other = tutti_tensor_1d(data, &one, d);
        if (d != TUTTI_F32 && tutti_reduce_op_valid(TUTTI_SUM, d)) {
            REFUSED(TUTTI_UNSUPPORTED, tutti_dtype_name(d),
                    tutti_all_reduce(g, &other, &other, TUTTI_SUM, ON_WIRE(TUTTI_WIRE_BF16)));
        }
    }
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_broadcast(g, &t, 0, ON_WIRE(TUTTI_WIRE_BF16)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_reduce(g, &t, &u, TUTTI_SUM, 0, ON_WIRE(TUTTI_WIRE_BF16)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_barrier(g, ON_WIRE(TUTTI_WIRE_BF16)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_send(g, &t, 0, 0, ON_WIRE(TUTTI_WIRE_BF16)));
    REFUSED(TUTTI_UNSUPPORTED, "all_reduce only", tutti_barrier_async(g, ON_WIRE(TUTTI_WIRE_BF16), &work));
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

/* Calls with and without it in turn: the call cache, which knows the others, must not take one for the other. */
static void in_turn(tutti_group *g)
{
    for (int i = 0; i < 12; i++) {
        int64_t n = 1;
        float x = 1.00390625f; /* halfway between two values of bf16: rounds to 1 */
        DLTensor t = tutti_tensor_1d(&x, &n, TUTTI_F32);
        EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, i % 4 == 3 ? WIRE : NULL));
        EXPECT(x == (float)tutti_group_size(g) * (i % 4 == 3 ? 1 : 1.00390625f));
    }
}

/* A list made once; every rank but the first makes the ordinary call, so the two have to be the same. */
static void persistent(tutti_group *g)
{
    int64_t n = 1;
    float x = 0;
    DLTensor t = tutti_tensor_1d(&x, &n, TUTTI_F32);
    const tutti_persistent_op op = {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &t, .output = &t};
    tutti_persistent *p = NULL;
    tutti_error e;
    EXPECT_OK(tutti_persistent_init(g, &op, 1, WIRE, &p));
    for (int i = 0; i < 4; i++) {
        x = 1.00390625f; /* rounds to 1 */
        EXPECT_OK(tutti_group_rank(g) == 0 ? tutti_persistent_run(p, &e)
                                           : tutti_all_reduce(g, &t, &t, TUTTI_SUM, WIRE));
        EXPECT(x == (float)tutti_group_size(g));
    }
    EXPECT_OK(tutti_persistent_release(p, &e));
}

/* ---- the bucketer's ---- */

static void buckets(tutti_group *g)
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
    const tutti_bucketer_options *o = TUTTI_BUCKETER_OPTIONS(.wire = TUTTI_WIRE_BF16);
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "f64", tutti_bucketer_create(g, list, 2, o, &bucketer, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "max",
                 tutti_bucketer_create(g, list, 1, TUTTI_BUCKETER_OPTIONS(.op = TUTTI_MAX, .wire = TUTTI_WIRE_BF16),
                                       &bucketer, &e));
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
    refusals(g);
    older_caller(g);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++) {
            same_as_bf16(g, counts[i], ops[k], (i + k) % 2 == 0);
        }
    }
    in_turn(g);
    persistent(g);
    buckets(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank_main);
    return test_result();
}
