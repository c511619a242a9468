/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each function is one collective and its time. A block costs two of them in the forward pass and two in the backward
 * pass, each over tokens x hidden numbers: all_reduce, or with sequence parallelism its two halves, reduce_scatter and
 * all_gather, which together transfer the same bytes.
 */
#include "parallel.h"

#include "common/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTENCE  512
#define BAD_INPUT 2

void parallel_open(struct parallel *p, tutti_group *world, int32_t tensor_ranks, bool sequence)
{
    memset(p, 0, sizeof(*p));
    p->world = world;
    p->rank = tutti_group_rank(world);
    p->ranks = tutti_group_size(world);
    p->tensor_rank = p->rank % tensor_ranks;
    p->tensor_ranks = tensor_ranks;
    p->data_rank = p->rank / tensor_ranks;
    p->data_ranks = p->ranks / tensor_ranks;
    p->sequence = sequence;
    p->status = tutti_group_split(world, p->data_rank, p->rank, NULL, &p->tensor, &p->error);
    if (p->status == TUTTI_OK) {
        p->status = tutti_group_split(world, p->tensor_rank, p->rank, NULL, &p->data, &p->error);
    }
}

void parallel_close(struct parallel *p)
{
    tutti_group_destroy(p->tensor, NULL);
    tutti_group_destroy(p->data, NULL);
}

void parallel_revoke(struct parallel *p)
{
    tutti_group_revoke(p->tensor, NULL);
    tutti_group_revoke(p->data, NULL);
}

void parallel_must(const struct parallel *p)
{
    must(p->status, &p->error);
}

int64_t tensor_own_rows(const struct parallel *p, int64_t rows)
{
    return p->sequence ? rows / p->tensor_ranks : rows;
}

float *tensor_own(const struct parallel *p, float *x, int64_t rows, int64_t width)
{
    return p->sequence ? x + p->tensor_rank * tensor_own_rows(p, rows) * width : x;
}

void tensor_enter(struct parallel *p, float *x, int64_t rows, int64_t width)
{
    if (!p->sequence || p->status != TUTTI_OK) {
        return;
    }
    const double begin = seconds_now();
    const int64_t own_shape[2] = {tensor_own_rows(p, rows), width};
    const int64_t all_shape[2] = {rows, width};
    DLTensor own = tutti_tensor_nd(tensor_own(p, x, rows, width), 2, own_shape, TUTTI_F32);
    DLTensor all = tutti_tensor_nd(x, 2, all_shape, TUTTI_F32);
    p->status = tutti_all_gather(p->tensor, &own, &all, 0, TUTTI_CALL(.error = &p->error));
    p->seconds += seconds_now() - begin;
}

void tensor_leave(struct parallel *p, float *x, int64_t rows, int64_t width)
{
    if (!p->sequence) {
        tensor_all_reduce(p, x, rows * width, TUTTI_SUM);
        return;
    }
    if (p->status != TUTTI_OK) {
        return;
    }
    const double begin = seconds_now();
    const int64_t own_shape[2] = {tensor_own_rows(p, rows), width};
    const int64_t all_shape[2] = {rows, width};
    DLTensor own = tutti_tensor_nd(tensor_own(p, x, rows, width), 2, own_shape, TUTTI_F32);
    DLTensor all = tutti_tensor_nd(x, 2, all_shape, TUTTI_F32);
    p->status = tutti_reduce_scatter(p->tensor, &all, &own, TUTTI_SUM, 0, TUTTI_CALL(.error = &p->error));
    p->seconds += seconds_now() - begin;
}

static void all_reduce(struct parallel *p, tutti_group *group, float *x, int64_t count, tutti_reduce_op op)
{
    if (p->status != TUTTI_OK) {
        return;
    }
    const double begin = seconds_now();
    DLTensor tensor = tutti_tensor_1d(x, &count, TUTTI_F32);
    p->status = tutti_all_reduce(group, &tensor, &tensor, op, TUTTI_CALL(.error = &p->error));
    p->seconds += seconds_now() - begin;
}

void tensor_all_reduce(struct parallel *p, float *x, int64_t count, tutti_reduce_op op)
{
    all_reduce(p, p->tensor, x, count, op);
}

void data_all_reduce(struct parallel *p, float *x, int64_t count, tutti_reduce_op op)
{
    all_reduce(p, p->data, x, count, op);
}

void data_broadcast(struct parallel *p, float *x, int64_t count)
{
    if (p->status == TUTTI_OK) {
        DLTensor tensor = tutti_tensor_1d(x, &count, TUTTI_F32);
        p->status = tutti_broadcast(p->data, &tensor, 0, TUTTI_CALL(.error = &p->error));
    }
}

void world_broadcast(struct parallel *p, void *bytes, int64_t count)
{
    if (p->status == TUTTI_OK) {
        DLTensor tensor = tutti_tensor_1d(bytes, &count, TUTTI_U8);
        p->status = tutti_broadcast(p->world, &tensor, 0, TUTTI_CALL(.error = &p->error));
    }
}

int32_t tensor_best(struct parallel *p, double score, int32_t which)
{
    if (p->status != TUTTI_OK) {
        return which;
    }
    const double begin = seconds_now();
    double own[2] = {score, which};
    double *all = allocate(2 * (size_t)p->tensor_ranks, sizeof(double));
    const int64_t two = 2;
    const int64_t numbers = 2 * (int64_t)p->tensor_ranks;
    DLTensor input = tutti_tensor_1d(own, &two, TUTTI_F64);
    DLTensor output = tutti_tensor_1d(all, &numbers, TUTTI_F64);
    p->status = tutti_all_gather(p->tensor, &input, &output, 0, TUTTI_CALL(.error = &p->error));
    p->seconds += seconds_now() - begin;
    const double *best = all;
    for (int32_t rank = 1; rank < p->tensor_ranks; rank++) {
        best = all[2 * rank] > best[0] ? all + 2 * (size_t)rank : best;
    }
    which = (int32_t)best[1];
    free(all);
    return which;
}

void tensor_gather(struct parallel *p, float *part, float *whole, int64_t rows, int64_t columns, int split)
{
    int64_t shape[2] = {rows, columns};
    if (p->status != TUTTI_OK) {
        return;
    }
    if (split < 0) {
        if (whole) {
            memcpy(whole, part, (size_t)(rows * columns) * sizeof(float));
        }
        return;
    }
    DLTensor output = tutti_tensor_nd(whole, 2, (const int64_t[]){rows, columns}, TUTTI_F32);
    shape[split] /= p->tensor_ranks;
    DLTensor input = tutti_tensor_nd(part, 2, shape, TUTTI_F32);
    p->status = tutti_gather(p->tensor, &input, whole ? &output : NULL, split, 0, TUTTI_CALL(.error = &p->error));
}

void tensor_scatter(struct parallel *p, float *whole, float *part, int64_t rows, int64_t columns, int split)
{
    int64_t shape[2] = {rows, columns};
    if (p->status != TUTTI_OK) {
        return;
    }
    if (split < 0) {
        if (whole) {
            memcpy(part, whole, (size_t)(rows * columns) * sizeof(float));
        }
        DLTensor tensor = tutti_tensor_nd(part, 2, shape, TUTTI_F32);
        p->status = tutti_broadcast(p->tensor, &tensor, 0, TUTTI_CALL(.error = &p->error));
        return;
    }
    DLTensor input = tutti_tensor_nd(whole, 2, (const int64_t[]){rows, columns}, TUTTI_F32);
    shape[split] /= p->tensor_ranks;
    DLTensor output = tutti_tensor_nd(part, 2, shape, TUTTI_F32);
    p->status = tutti_scatter(p->tensor, whole ? &input : NULL, &output, split, 0, TUTTI_CALL(.error = &p->error));
}

void input_check(tutti_group *world, const char *why)
{
    const int32_t ranks = tutti_group_size(world);
    const int32_t rank = tutti_group_rank(world);
    int32_t first = why[0] ? rank : ranks;
    const int64_t one = 1;
    tutti_error error;
    DLTensor lowest = tutti_tensor_1d(&first, &one, TUTTI_I32);
    must(tutti_all_reduce(world, &lowest, &lowest, TUTTI_MIN, TUTTI_CALL(.error = &error)), &error);
    if (first == ranks) {
        return;
    }
    char sentence[SENTENCE] = "";
    snprintf(sentence, sizeof(sentence), "%s", why);
    const int64_t bytes = sizeof(sentence);
    DLTensor text = tutti_tensor_1d(sentence, &bytes, TUTTI_U8);
    must(tutti_broadcast(world, &text, first, TUTTI_CALL(.error = &error)), &error);
    if (rank == 0) {
        fprintf(stderr, "gpt: %s\n", sentence);
    }
    /* The launcher ends all ranks when one ends, so no rank ends before the sentence is printed. */
    must(tutti_barrier(world, TUTTI_CALL(.error = &error)), &error);
    exit(BAD_INPUT);
}
