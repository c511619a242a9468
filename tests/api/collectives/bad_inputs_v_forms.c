/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad counts and displacements: the status, and a message that names the list and the entry. The group still works. */
#include "api/bad_inputs.h"

#define RANKS 3
#define ROWS  9

struct lists {
    int64_t own;
    int64_t rows;
    float in[ROWS];
    float out[ROWS];
    DLTensor part;
    DLTensor joined;
};

static void make(struct lists *l, int64_t own)
{
    memset(l, 0, sizeof(*l));
    l->own = own;
    l->rows = ROWS;
    l->part = tutti_tensor_1d(l->in, &l->own, TUTTI_F32);
    l->joined = tutti_tensor_1d(l->out, &l->rows, TUTTI_F32);
}

static void all_gather_v(tutti_group *g)
{
    tutti_error e;
    const int64_t good[RANKS] = {2, 3, 4};
    struct lists l;
    make(&l, good[tutti_group_rank(g)]);
    BAD("counts is NULL", tutti_all_gather_v(g, &l.part, &l.joined, 0, NULL, NULL, OPTIONS));
    const int64_t negative[RANKS] = {2, -3, 10};
    BAD("counts[1] is -3", tutti_all_gather_v(g, &l.part, &l.joined, 0, negative, NULL, OPTIONS));
    const int64_t more[RANKS] = {2, 3, 5};
    BAD("sum to 10", tutti_all_gather_v(g, &l.part, &l.joined, 0, more, NULL, OPTIONS));
    const int64_t fewer[RANKS] = {2, 3, 3};
    BAD("sum to 8", tutti_all_gather_v(g, &l.part, &l.joined, 0, fewer, NULL, OPTIONS));
    const int64_t overflow[RANKS] = {INT64_MAX, INT64_MAX, 11};
    BAD("sum of counts", tutti_all_gather_v(g, &l.part, &l.joined, 0, overflow, NULL, OPTIONS));
    const int64_t others[RANKS] = {3, 4, 2};
    BAD("the own part", tutti_all_gather_v(g, &l.part, &l.joined, 0, others, NULL, OPTIONS));
    const int64_t before[RANKS] = {-1, 2, 5};
    BAD("displacements[0] is -1", tutti_all_gather_v(g, &l.part, &l.joined, 0, good, before, OPTIONS));
    const int64_t behind[RANKS] = {0, 2, 6};
    BAD("displacements[2] is 6", tutti_all_gather_v(g, &l.part, &l.joined, 0, good, behind, OPTIONS));
    const int64_t far[RANKS] = {0, INT64_MAX, 5};
    BAD("displacements[1]", tutti_all_gather_v(g, &l.part, &l.joined, 0, good, far, OPTIONS));
    const int64_t over[RANKS] = {0, 1, 5};
    BAD("rank 0 (2 rows at 0) and rank 1 (3 rows at 1) overlap",
        tutti_all_gather_v(g, &l.part, &l.joined, 0, good, over, OPTIONS));
    const int64_t over_backwards[RANKS] = {7, 3, 0};
    BAD("overlap in output", tutti_all_gather_v(g, &l.part, &l.joined, 0, good, over_backwards, OPTIONS));
    const int64_t backwards[RANKS] = {7, 4, 0};
    EXPECT_OK(tutti_all_gather_v(g, &l.part, &l.joined, 0, good, backwards, OPTIONS));
}

static void reduce_scatter_v(tutti_group *g)
{
    tutti_error e;
    const int64_t good[RANKS] = {2, 3, 4};
    struct lists l;
    make(&l, good[tutti_group_rank(g)]);
    BAD("counts is NULL", tutti_reduce_scatter_v(g, &l.joined, &l.part, TUTTI_SUM, 0, NULL, OPTIONS));
    const int64_t negative[RANKS] = {-2, 3, 8};
    BAD("counts[0] is -2", tutti_reduce_scatter_v(g, &l.joined, &l.part, TUTTI_SUM, 0, negative, OPTIONS));
    const int64_t fewer[RANKS] = {2, 3, 3};
    BAD("sum to 8", tutti_reduce_scatter_v(g, &l.joined, &l.part, TUTTI_SUM, 0, fewer, OPTIONS));
    const int64_t more[RANKS] = {2, 3, 6};
    BAD("sum to 11", tutti_reduce_scatter_v(g, &l.joined, &l.part, TUTTI_SUM, 0, more, OPTIONS));
    const int64_t others[RANKS] = {3, 4, 2};
    BAD("output has length", tutti_reduce_scatter_v(g, &l.joined, &l.part, TUTTI_SUM, 0, others, OPTIONS));
    EXPECT_OK(tutti_reduce_scatter_v(g, &l.joined, &l.part, TUTTI_SUM, 0, good, OPTIONS));
}

static void all_to_all_v(tutti_group *g)
{
    tutti_error e;
    const int64_t three[RANKS] = {3, 3, 3};
    struct lists l;
    make(&l, ROWS);
    DLTensor in = tutti_tensor_1d(l.in, &l.rows, TUTTI_F32);
    DLTensor *out = &l.joined;
    BAD("send_counts is NULL", tutti_all_to_all_v(g, &in, out, 0, NULL, NULL, three, NULL, OPTIONS));
    BAD("recv_counts is NULL", tutti_all_to_all_v(g, &in, out, 0, three, NULL, NULL, NULL, OPTIONS));
    const int64_t negative[RANKS] = {3, 3, -1};
    BAD("send_counts[2] is -1", tutti_all_to_all_v(g, &in, out, 0, negative, NULL, three, NULL, OPTIONS));
    BAD("recv_counts[2] is -1", tutti_all_to_all_v(g, &in, out, 0, three, NULL, negative, NULL, OPTIONS));
    const int64_t fewer[RANKS] = {3, 3, 2};
    BAD("send_counts sum to 8", tutti_all_to_all_v(g, &in, out, 0, fewer, NULL, three, NULL, OPTIONS));
    BAD("recv_counts sum to 8", tutti_all_to_all_v(g, &in, out, 0, three, NULL, fewer, NULL, OPTIONS));
    const int64_t out_of_range[RANKS] = {0, 3, 7};
    BAD("send_displacements[2] is 7", tutti_all_to_all_v(g, &in, out, 0, three, out_of_range, three, NULL, OPTIONS));
    BAD("recv_displacements[2] is 7", tutti_all_to_all_v(g, &in, out, 0, three, NULL, three, out_of_range, OPTIONS));
    const int64_t overlapping[RANKS] = {0, 2, 5};
    BAD("overlap in output", tutti_all_to_all_v(g, &in, out, 0, three, NULL, three, overlapping, OPTIONS));
    /* one may send the same rows to several ranks */
    EXPECT_OK(tutti_all_to_all_v(g, &in, out, 0, three, overlapping, three, NULL, OPTIONS));
    int64_t pair[2] = {ROWS / 3, 3};
    DLTensor two_dims = tutti_tensor_nd(l.out, 2, pair, TUTTI_F32);
    BAD("output has 2 dimensions", tutti_all_to_all_v(g, &in, &two_dims, 0, three, NULL, three, NULL, OPTIONS));
    DLTensor other = *out;
    other.dtype = tutti_dtype_to_dlpack(TUTTI_I32);
    BAD("output has dtype i32", tutti_all_to_all_v(g, &in, &other, 0, three, NULL, three, NULL, OPTIONS));
    /* one rank sends another count than the other expects: all ranks get both ranks and counts, and the group lives */
    const int64_t sent[RANKS] = {3, 3, 3};
    const int64_t expected_by_last[RANKS] = {3, 2, 4};
    const int64_t *expected = tutti_group_rank(g) == RANKS - 1 ? expected_by_last : three;
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "rank 1", tutti_all_to_all_v(g, &in, out, 0, sent, NULL, expected, NULL, OPTIONS));
    EXPECT_USABLE(g);
}

/* A rank without others has to agree with itself, in each form, before anything is written. */
static tutti_status only_rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    const int64_t fewer = ROWS - 1;
    const int64_t rows = ROWS;
    struct lists l;
    make(&l, ROWS);
    DLTensor in = tutti_tensor_1d(l.in, &fewer, TUTTI_F32);
    tutti_work *work = NULL;
    memset(l.out, 0, sizeof(l.out));
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "sends 8 rows to itself but expects 9",
                 tutti_all_to_all_v(g, &in, &l.joined, 0, &fewer, NULL, &rows, NULL, OPTIONS));
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "sends 8 rows to itself but expects 9",
                 tutti_all_to_all_v_async(g, &in, &l.joined, 0, &fewer, NULL, &rows, NULL, OPTIONS, &work));
    for (int i = 0; i < ROWS; i++) {
        EXPECT(l.out[i] == 0);
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    all_gather_v(g);
    reduce_scatter_v(g);
    all_to_all_v(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    test_ranks(1, only_rank);
    return test_result();
}
