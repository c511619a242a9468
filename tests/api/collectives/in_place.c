/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place: one tensor for input and output, or the rank's own part of the joined tensor. The results equal those of
 * two separate tensors.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"

#define RANKS 4

/* Element i of what rank r contributes. */
static int32_t value(int32_t r, int64_t i)
{
    return (int32_t)(r * 1000003 + i * 31 % 100000);
}

static int32_t sum_of(int64_t i)
{
    int32_t sum = 0;
    for (int32_t r = 0; r < RANKS; r++) {
        sum += value(r, i);
    }
    return sum;
}

static void fill(int32_t *data, int64_t n, int32_t r)
{
    for (int64_t i = 0; i < n; i++) {
        data[i] = value(r, i);
    }
}

static int32_t *make(int64_t n)
{
    int32_t *data = calloc((size_t)n, sizeof(*data));
    if (!data) {
        abort();
    }
    return data;
}

static void reductions(tutti_group *g, int64_t n)
{
    int32_t me = tutti_group_rank(g);
    int32_t *data = make(n);
    DLTensor t = tutti_tensor_1d(data, &n, TUTTI_I32);
    fill(data, n, me);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL));
    bool right = true;
    for (int64_t i = 0; i < n; i++) {
        right = right && data[i] == sum_of(i);
    }
    EXPECT(right);
    for (int32_t root = 0; root < RANKS; root++) {
        fill(data, n, me);
        EXPECT_OK(tutti_reduce(g, &t, me == root ? &t : NULL, TUTTI_SUM, root, NULL));
        for (int64_t i = 0; i < n; i++) { /* off the root the input is as it was */
            right = right && data[i] == (me == root ? sum_of(i) : value(me, i));
        }
        EXPECT(right);
    }
    free(data);
}

/* The joined tensor holds the ranks' parts; the own one may be filled by its owner only. */
static bool is_joined(const int32_t *data, int64_t n)
{
    for (int64_t i = 0; i < RANKS * n; i++) {
        if (data[i] != value((int32_t)(i / n), i % n)) {
            return false;
        }
    }
    return true;
}

static void gathers(tutti_group *g, int64_t n)
{
    int32_t me = tutti_group_rank(g);
    int64_t all = RANKS * n;
    int32_t *data = make(all);
    DLTensor joined = tutti_tensor_1d(data, &all, TUTTI_I32);
    DLTensor own = tutti_tensor_1d(data + me * n, &n, TUTTI_I32);
    fill(data + me * n, n, me);
    EXPECT_OK(tutti_all_gather(g, &own, &joined, 0, NULL));
    EXPECT(is_joined(data, n));
    memset(data, 0, (size_t)all * sizeof(*data));
    fill(data + me * n, n, me);
    int64_t counts[RANKS] = {n, n, n, n};
    EXPECT_OK(tutti_all_gather_v(g, &own, &joined, 0, counts, NULL, NULL));
    EXPECT(is_joined(data, n));
    for (int32_t root = 0; root < RANKS; root++) {
        memset(data, 0, (size_t)all * sizeof(*data));
        fill(data + me * n, n, me);
        EXPECT_OK(tutti_gather(g, &own, me == root ? &joined : NULL, 0, root, NULL));
        EXPECT(me != root || is_joined(data, n));
    }
    free(data);
}

/* Dimensions of length 1 before the dimension: the own part is still contiguous. */
static void leading_ones(tutti_group *g, int64_t n)
{
    int32_t me = tutti_group_rank(g);
    int64_t part[3] = {1, 1, n};
    int64_t whole[3] = {1, RANKS, n};
    int32_t *data = make(RANKS * n);
    DLTensor joined = tutti_tensor_nd(data, 3, whole, TUTTI_I32);
    DLTensor own = tutti_tensor_nd(NULL, 3, part, TUTTI_I32);
    own.data = data; /* an address by byte_offset is the same address */
    own.byte_offset = (uint64_t)(me * n) * sizeof(*data);
    fill(data + me * n, n, me);
    EXPECT_OK(tutti_all_gather(g, &own, &joined, 1, NULL));
    EXPECT(is_joined(data, n));
    free(data);
}

static void scatters(tutti_group *g, int64_t n)
{
    int32_t me = tutti_group_rank(g);
    int64_t all = RANKS * n;
    int32_t *data = make(all);
    DLTensor joined = tutti_tensor_1d(data, &all, TUTTI_I32);
    DLTensor own = tutti_tensor_1d(data + me * n, &n, TUTTI_I32);
    for (int32_t root = 0; root < RANKS; root++) {
        memset(data, 0, (size_t)all * sizeof(*data));
        if (me == root) {
            fill(data, all, root);
        }
        EXPECT_OK(tutti_scatter(g, me == root ? &joined : NULL, &own, 0, root, NULL));
        bool right = true;
        for (int64_t i = 0; i < n; i++) {
            right = right && data[me * n + i] == value(root, me * n + i);
        }
        EXPECT(right);
    }
    int64_t counts[RANKS] = {n, n, n, n};
    for (int form = 0; form < 2; form++) {
        fill(data, all, me);
        tutti_status status = form == 0 ? tutti_reduce_scatter(g, &joined, &own, TUTTI_SUM, 0, NULL)
                                        : tutti_reduce_scatter_v(g, &joined, &own, TUTTI_SUM, 0, counts, NULL);
        EXPECT_OK(status);
        bool right = true;
        for (int64_t i = 0; i < n; i++) {
            right = right && data[me * n + i] == sum_of(me * n + i);
        }
        EXPECT(right);
    }
    free(data);
}

/* A group of one owns everything: the own part is the whole tensor, along any dimension. */
static tutti_status alone(tutti_group *g, void *user)
{
    (void)user;
    int32_t data[6] = {1, 2, 3, 4, 5, 6};
    int64_t shape[2] = {2, 3};
    DLTensor t = tutti_tensor_nd(data, 2, shape, TUTTI_I32);
    EXPECT_OK(tutti_all_gather(g, &t, &t, 1, NULL));
    EXPECT_OK(tutti_gather(g, &t, &t, 1, 0, NULL));
    EXPECT_OK(tutti_scatter(g, &t, &t, 1, 0, NULL));
    EXPECT_OK(tutti_reduce_scatter(g, &t, &t, TUTTI_SUM, 1, NULL));
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL));
    for (int i = 0; i < 6; i++) {
        EXPECT(data[i] == i + 1);
    }
    return TUTTI_OK;
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    const int64_t lengths[] = {1, 3, 1000, 150001}; /* from an arrival line to several windows */
    for (int i = 0; i < 4; i++) {
        reductions(g, lengths[i]);
        gathers(g, lengths[i]);
        leading_ones(g, lengths[i]);
        scatters(g, lengths[i]);
    }
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    test_ranks(1, alone);
    return test_result();
}
