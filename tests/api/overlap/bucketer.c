/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bucketer against sums that this test computes: gradients of many shapes, at any place in memory. Each rank
 * reports them ready in its own order, over several steps. bucketer_errors.c tests steps that fail.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"
#include "time_limits.h"

#define RANKS     3
#define GRADIENTS 8
#define STEPS     4
#define GUARD     0xa5

enum layout {
    CONTIGUOUS,
    SCATTERED,
    BACKWARDS, /* one behind the other, the last one first */
    BY_RANK,   /* contiguous on rank 0, scattered elsewhere */
};

struct model {
    const char *name;
    enum layout layout;
    tutti_reduce_op op; /* 0: the default */
    int64_t bucket_bytes;
    size_t buckets; /* expected */
    size_t largest;
    size_t count;
    struct {
        int64_t elements;
        tutti_dtype dtype;
    } gradient[GRADIENTS];
};

static const struct model models[] = {
    {"contiguous",
     CONTIGUOUS,
     0,
     5000,
     2,
     8080,
     4,
     {{1000, TUTTI_F32}, {10, TUTTI_F32}, {2000, TUTTI_F32}, {20, TUTTI_F32}}},
    {"scattered",
     SCATTERED,
     TUTTI_SUM,
     100,
     2,
     8080,
     4,
     {{1000, TUTTI_F32}, {10, TUTTI_F32}, {2000, TUTTI_F32}, {20, TUTTI_F32}}},
    {"backwards", BACKWARDS, TUTTI_SUM, 100, 1, 100, 3, {{10, TUTTI_F32}, {10, TUTTI_F32}, {5, TUTTI_F32}}},
    {"contiguous on one rank",
     BY_RANK,
     TUTTI_AVG,
     1000,
     2,
     8080,
     4,
     {{1000, TUTTI_F32}, {10, TUTTI_F32}, {2000, TUTTI_F32}, {20, TUTTI_F32}}},
    {"25 MiB", SCATTERED, TUTTI_MAX, 0, 1, 12040, 3, {{1000, TUTTI_F32}, {10, TUTTI_F32}, {2000, TUTTI_F32}}},
    {"mixed dtypes, contiguous",
     CONTIGUOUS,
     TUTTI_AVG,
     1000,
     4,
     88,
     6,
     {{8, TUTTI_F64}, {3, TUTTI_F64}, {6, TUTTI_F32}, {2, TUTTI_F32}, {4, TUTTI_I32}, {2, TUTTI_F32}}},
    {"mixed dtypes, scattered",
     SCATTERED,
     TUTTI_AVG,
     1000,
     4,
     88,
     6,
     {{8, TUTTI_F64}, {3, TUTTI_F64}, {6, TUTTI_F32}, {2, TUTTI_F32}, {4, TUTTI_I32}, {2, TUTTI_F32}}},
    {"larger than a bucket",
     SCATTERED,
     TUTTI_SUM,
     1000,
     2,
     800040,
     3,
     {{5, TUTTI_F64}, {100000, TUTTI_F64}, {5, TUTTI_F64}}},
    {"each its own",
     CONTIGUOUS,
     TUTTI_SUM,
     1,
     7,
     40,
     7,
     {{4, TUTTI_I32}, {5, TUTTI_I32}, {6, TUTTI_I32}, {7, TUTTI_I32}, {8, TUTTI_I32}, {9, TUTTI_I32}, {10, TUTTI_I32}}},
    {"an empty one, contiguous",
     CONTIGUOUS,
     TUTTI_SUM,
     1000,
     1,
     32,
     3,
     {{4, TUTTI_F32}, {0, TUTTI_F32}, {4, TUTTI_F32}}},
    {"an empty one, scattered",
     SCATTERED,
     TUTTI_SUM,
     1000,
     1,
     32,
     4,
     {{0, TUTTI_F32}, {4, TUTTI_F32}, {0, TUTTI_F32}, {4, TUTTI_F32}}},
    {"an empty one of another dtype",
     CONTIGUOUS,
     TUTTI_SUM,
     1000,
     3,
     16,
     3,
     {{4, TUTTI_F32}, {0, TUTTI_I32}, {4, TUTTI_F32}}},
    {"just full", SCATTERED, TUTTI_SUM, 16, 2, 16, 2, {{4, TUTTI_F32}, {4, TUTTI_F32}}},
    {"one", SCATTERED, 0, 0, 1, 28, 1, {{7, TUTTI_F32}}},
    {"nothing", CONTIGUOUS, TUTTI_SUM, 0, 1, 0, 1, {{0, TUTTI_F32}}},
};

/* A rank's gradients. */
struct place {
    unsigned char *memory;
    size_t size;
    unsigned char *data[GRADIENTS];
    int64_t shape[GRADIENTS][2];
    DLTensor tensor[GRADIENTS];
};

static size_t bytes_of(const struct model *m, size_t i)
{
    return (size_t)m->gradient[i].elements * tutti_dtype_size(m->gradient[i].dtype);
}

static void lay_out(const struct model *m, int32_t rank, struct place *p)
{
    enum layout layout = m->layout != BY_RANK ? m->layout : (rank == 0 ? CONTIGUOUS : SCATTERED);
    size_t gap = layout == SCATTERED ? 24 : 0;
    p->size = 64;
    for (size_t i = 0; i < m->count; i++) {
        p->size += bytes_of(m, i) + 24;
    }
    p->memory = malloc(p->size);
    if (!p->memory) {
        abort();
    }
    memset(p->memory, GUARD, p->size);
    size_t at = 24;
    for (size_t n = 0; n < m->count; n++) {
        size_t i = layout == BACKWARDS ? m->count - 1 - n : n;
        size_t bytes = bytes_of(m, i);
        p->data[i] = p->memory + at;
        p->shape[i][0] = 1;
        p->shape[i][1] = m->gradient[i].elements;
        p->tensor[i] = tutti_tensor_nd(bytes > 0 ? p->memory : NULL, (int32_t)(i % 2) + 1, &p->shape[i][1 - i % 2],
                                       m->gradient[i].dtype);
        p->tensor[i].byte_offset = bytes > 0 ? at : 0;
        at += bytes + gap;
    }
}

static int64_t value(int32_t rank, int step, size_t gradient, int64_t element)
{
    return (rank * 37 + step * 13 + (int64_t)gradient * 31 + element * 7 + element / 11) % 101 - 50;
}

static void put(unsigned char *data, tutti_dtype dtype, int64_t element, double number)
{
    switch (dtype) {
    case TUTTI_F64:
        ((double *)(void *)data)[element] = number;
        break;
    case TUTTI_F32:
        ((float *)(void *)data)[element] = (float)number;
        break;
    default:
        ((int32_t *)(void *)data)[element] = (int32_t)number;
    }
}

static double get(const unsigned char *data, tutti_dtype dtype, int64_t element)
{
    switch (dtype) {
    case TUTTI_F64:
        return ((const double *)(const void *)data)[element];
    case TUTTI_F32:
        return (double)((const float *)(const void *)data)[element];
    default:
        return ((const int32_t *)(const void *)data)[element];
    }
}

/* Sums of small integers are exact in every dtype here, so only the division of AVG rounds. */
static double expected(tutti_reduce_op op, tutti_dtype dtype, int step, size_t gradient, int64_t element)
{
    int64_t sum = 0;
    int64_t most = INT64_MIN;
    for (int32_t r = 0; r < RANKS; r++) {
        int64_t v = value(r, step, gradient, element);
        sum += v;
        most = v > most ? v : most;
    }
    if (op == TUTTI_MAX) {
        return (double)most;
    }
    if (op == TUTTI_SUM) {
        return (double)sum;
    }
    double mean = (double)sum / RANKS;
    return dtype == TUTTI_I32 ? (double)(sum / RANKS) : dtype == TUTTI_F32 ? (double)(float)mean : mean;
}

/* Computes one gradient of a step. */
static void compute(const struct model *m, const struct place *p, size_t i, int32_t rank, int step)
{
    for (int64_t e = 0; e < m->gradient[i].elements; e++) {
        put(p->data[i], m->gradient[i].dtype, e, (double)value(rank, step, i, e));
    }
}

/* Every gradient holds the result, and nothing else has changed. */
static bool right(const struct model *m, const struct place *p, int step)
{
    bool good = true;
    tutti_reduce_op op = m->op ? m->op : TUTTI_AVG;
    for (size_t i = 0; i < m->count; i++) {
        tutti_dtype dtype = m->gradient[i].dtype;
        for (int64_t e = 0; e < m->gradient[i].elements; e++) {
            good = good && get(p->data[i], dtype, e) == expected(op, dtype, step, i, e);
        }
    }
    unsigned char *rest = malloc(p->size);
    if (!rest) {
        abort();
    }
    memcpy(rest, p->memory, p->size);
    for (size_t i = 0; i < m->count; i++) {
        memset(rest + (p->data[i] - p->memory), GUARD, bytes_of(m, i));
    }
    for (size_t at = 0; at < p->size; at++) {
        good = good && rest[at] == GUARD;
    }
    free(rest);
    return good;
}

static void shuffle(size_t *order, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (size_t i = count; i > 1; i--) {
        seed = seed * 1664525u + 1013904223u;
        size_t other = (seed >> 8) % i;
        size_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

static tutti_bucketer *create(tutti_group *g, const struct model *m, struct place *p, int32_t lane)
{
    const DLTensor *list[GRADIENTS];
    tutti_error e;
    tutti_bucketer *b = NULL;
    lay_out(m, tutti_group_rank(g), p);
    for (size_t i = 0; i < m->count; i++) {
        list[i] = &p->tensor[i];
    }
    EXPECT_OK(tutti_bucketer_create(
        g, list, m->count,
        TUTTI_BUCKETER_OPTIONS(.op = m->op, .bucket_bytes = m->bucket_bytes, .lane = lane, .timeout_ms = LONG_MS), &b,
        &e));
    EXPECT(e.status == TUTTI_OK);
    memset(p->tensor, 0xff, sizeof(p->tensor)); /* only the data is borrowed */
    memset(p->shape, 0xff, sizeof(p->shape));
    return b;
}

static void try_model(tutti_group *g, const struct model *m)
{
    int32_t me = tutti_group_rank(g);
    struct place p;
    tutti_error e;
    tutti_bucketer *b = create(g, m, &p, 0);
    size_t buckets = 0;
    size_t largest = 1;
    EXPECT_OK(tutti_bucketer_describe(b, &buckets, &largest, &e));
    if (buckets != m->buckets || largest != m->largest) {
        test_fail(__FILE__, __LINE__, m->name);
    }
    for (int step = 0; step < STEPS; step++) {
        size_t order[GRADIENTS];
        shuffle(order, m->count, (uint32_t)(me * 1000 + step));
        /* all; all but one, another one on each rank; all in the order of the backward pass; none */
        for (size_t n = 0; n < m->count; n++) {
            size_t i = step == 2 ? m->count - 1 - n : order[n];
            compute(m, &p, i, me, step); /* not before: a bucket that starts too early has wrong results */
            if (step == 0 || step == 2 || (step == 1 && n > 0)) {
                EXPECT_OK(tutti_bucketer_ready(b, i, &e));
                EXPECT_ERROR(&e, TUTTI_BAD_STATE, "already", tutti_bucketer_ready(b, i, &e));
            }
        }
        EXPECT_OK(tutti_bucketer_wait(b, &e));
        EXPECT(e.status == TUTTI_OK && e.rank == me);
        if (!right(m, &p, step)) {
            test_fail(__FILE__, __LINE__, m->name);
        }
    }
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed already", tutti_bucketer_destroy(b, &e));
    free(p.memory);
}

/* Two bucketers with steps of their own, each on its lane. */
static void two_lanes(tutti_group *world)
{
    const int32_t all[RANKS] = {0, 1, 2};
    int32_t me = tutti_group_rank(world);
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_create(world, all, RANKS, TUTTI_CONFIG(.lanes = 2), &g, NULL));
    struct place p[2];
    tutti_bucketer *b[2];
    for (int32_t lane = 0; lane < 2; lane++) {
        b[lane] = create(g, &models[lane], &p[lane], lane);
        for (size_t i = 0; i < 4; i++) {
            compute(&models[lane], &p[lane], i, me, lane);
        }
    }
    for (size_t i = 4; i-- > 0;) { /* one lane's bucket starts before the other's on some ranks, after it on others */
        EXPECT_OK(tutti_bucketer_ready(b[me % 2], i, NULL));
        EXPECT_OK(tutti_bucketer_ready(b[1 - me % 2], i, NULL));
    }
    for (int32_t n = 0; n < 2; n++) {
        int32_t lane = (n + me) % 2;
        EXPECT_OK(tutti_bucketer_wait(b[lane], NULL));
        EXPECT(right(&models[lane], &p[lane], lane));
        EXPECT_OK(tutti_bucketer_destroy(b[lane], NULL));
        free(p[lane].memory);
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        try_model(g, &models[i]);
    }
    two_lanes(g);
    return TUTTI_OK;
}

/* A group of one rank gives the same results. The steps are many more than the works that may exist at a time. */
static tutti_status alone(tutti_group *g, void *user)
{
    (void)user;
    int64_t three = 3;
    float data[3] = {1, 2, 4};
    DLTensor t = tutti_tensor_1d(data, &three, TUTTI_F32);
    const DLTensor *list = &t;
    tutti_bucketer *b = NULL;
    EXPECT_OK(tutti_bucketer_create(g, &list, 1, NULL, &b, NULL));
    EXPECT_OK(tutti_bucketer_describe(b, NULL, NULL, NULL));
    EXPECT_OK(tutti_bucketer_ready(b, 0, NULL));
    tutti_status status = TUTTI_OK;
    for (int step = 0; step < 70000 && status == TUTTI_OK; step++) {
        status = tutti_bucketer_wait(b, NULL);
    }
    EXPECT_OK(status);
    EXPECT(data[0] == 1 && data[1] == 2 && data[2] == 4);
    EXPECT_OK(tutti_bucketer_destroy(b, NULL));
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    test_ranks(1, alone);
    return test_result();
}
