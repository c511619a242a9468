/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/* Computing while communicating: one all_reduce beside a computation, the pipeline, and the bucketer. */
#include "ledger_support.h"

#include <stdlib.h>

enum { MANY = 4 };

static const int64_t one = 1;

/* Rank 1 takes part only while rank 0 computes, and rank 0 computes until rank 1 has its result. */
enum { COMPUTING, REDUCED };

static tutti_status compute(void *user)
{
    (void)user;
    atomic_store(ledger_flag(COMPUTING), 1);
    EXPECT(await_count(ledger_flag(REDUCED), 1));
    return TUTTI_OK;
}

static void beside(tutti_group *g, int32_t rank)
{
    int32_t in = rank + 1;
    int32_t out = 0;
    DLTensor input = ledger_tensor(&in, &one, TUTTI_I32);
    DLTensor output = ledger_tensor(&out, &one, TUTTI_I32);
    if (rank == 0) {
        EXPECT(tutti_overlap_all_reduce(g, &input, &output, TUTTI_SUM, compute, NULL, NULL) == TUTTI_OK);
        EXPECT(out == 3);
    } else if (await_count(ledger_flag(COMPUTING), 1)) {
        EXPECT(tutti_all_reduce(g, &input, &output, TUTTI_SUM, NULL) == TUTTI_OK && out == 3);
        atomic_store(ledger_flag(REDUCED), 1);
    }
    EXPECT(tutti_overlap_all_reduce(NULL, &input, &output, TUTTI_SUM, compute, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_overlap_all_reduce(g, NULL, &output, TUTTI_SUM, compute, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_overlap_all_reduce(g, &input, &output, TUTTI_SUM, NULL, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
}

static tutti_status compute_stage(size_t index, DLTensor *tensor, void *user)
{
    size_t *next = user;
    EXPECT(index == (*next)++);
    *(int32_t *)tensor->data = (int32_t)index + 1;
    return TUTTI_OK;
}

static void pipeline(tutti_group *g)
{
    int32_t values[MANY] = {0};
    DLTensor tensors[MANY];
    DLTensor *list[MANY];
    size_t next = 0;
    for (int i = 0; i < MANY; i++) {
        tensors[i] = ledger_tensor(&values[i], &one, TUTTI_I32);
        list[i] = &tensors[i];
    }
    EXPECT(tutti_overlap_pipeline(g, list, MANY, TUTTI_SUM, compute_stage, &next, NULL) == TUTTI_OK);
    for (int i = 0; i < MANY; i++) {
        EXPECT(values[i] == 2 * (i + 1));
    }
    EXPECT(next == MANY);
    EXPECT(tutti_overlap_pipeline(NULL, list, 1, TUTTI_SUM, compute_stage, &next, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_overlap_pipeline(g, NULL, 1, TUTTI_SUM, compute_stage, &next, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_overlap_pipeline(g, list, 1, TUTTI_SUM, NULL, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
}

/* Averages over both ranks, which report the gradients in different orders, and one of them not at all. */
static void bucketer(tutti_group *g, int32_t rank)
{
    float values[MANY];
    DLTensor tensors[MANY];
    const DLTensor *list[MANY];
    size_t buckets = 0;
    size_t largest = 0;
    tutti_error e;
    tutti_bucketer *b = NULL;
    for (int i = 0; i < MANY; i++) {
        values[i] = (float)(2 * rank * (i + 1));
        tensors[i] = ledger_tensor(&values[i], &one, TUTTI_F32);
        list[i] = &tensors[i];
    }
    EXPECT(tutti_bucketer_create(g, list, MANY, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = 8), &b, &e) == TUTTI_OK);
    EXPECT(tutti_bucketer_describe(b, &buckets, &largest, &e) == TUTTI_OK && buckets == 2 && largest == 8);
    for (size_t i = 0; i < MANY - 1; i++) {
        size_t index = rank == 0 ? i : MANY - 1 - i;
        EXPECT(tutti_bucketer_ready(b, index, &e) == TUTTI_OK);
        EXPECT(tutti_bucketer_ready(b, index, &e) == TUTTI_BAD_STATE);
    }
    EXPECT(tutti_bucketer_wait(b, &e) == TUTTI_OK);
    for (int i = 0; i < MANY; i++) {
        EXPECT(values[i] == (float)(i + 1));
    }
    EXPECT(tutti_bucketer_destroy(b, &e) == TUTTI_OK);
    EXPECT(tutti_bucketer_destroy(b, &e) == TUTTI_BAD_STATE);
}

static tutti_status two_ranks(tutti_group *g, void *user)
{
    (void)user;
    int32_t rank = tutti_group_rank(g);
    beside(g, rank);
    pipeline(g);
    bucketer(g, rank);
    return TUTTI_OK;
}

int main(void)
{
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
