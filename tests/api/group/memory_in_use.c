/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine that still uses the memory of an operation after the operation has failed, as MPI after a deadline. Memory
 * that the core has made for the operation is not used for anything else then. The engine is `local` behind a table in
 * which every operation fails that way.
 */
#include <stdint.h>
#include <stdlib.h>

#include "api/async/synchronous_local.h"
#include "api/messages/messages_async.h"
#include "memory_reuse.h"

enum { RANKS = 2, COUNT = 3000 };

static _Thread_local char *last_begin;
static _Thread_local char *last_end;

static tutti_status keep(tutti_op *op, tutti_error *error)
{
    last_begin = op->kind == TUTTI_OP_RECV ? op->dst : (void *)(uintptr_t)op->src;
    last_end = last_begin + op->count * tutti_dtype_size(op->dtype);
    op->in_use = 1;
    if (error) {
        *error = (tutti_error){.size = sizeof(*error), .status = TUTTI_TIMEOUT, .suspect = -1};
    }
    return TUTTI_TIMEOUT;
}

static tutti_status keep_collective(void *state, tutti_op *op, tutti_error *error)
{
    (void)state;
    return keep(op, error);
}

/* A receive of unknown shape gets its memory first. */
static tutti_status keep_message(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 tutti_error *error)
{
    static const int64_t shape[] = {COUNT};
    const tutti_message message = {.dtype = TUTTI_F32, .count = COUNT, .bytes = COUNT * sizeof(float)};
    (void)state;
    (void)count;
    (void)timeout_ms;
    if (ops[0]->allocate) {
        EXPECT_OK(ops[0]->allocate(ops[0], &message, 1, shape));
    }
    return ops[0]->status = keep(ops[0], error);
}

static void expect_kept(void)
{
    EXPECT(!is_reused(last_begin, (size_t)(last_end - last_begin)));
    last_begin[0] = last_end[-1] = 1; /* as the engine does */
}

static void fail_collectives(tutti_group *g, float *values)
{
    const int64_t count = COUNT;
    const int64_t stride = 2;
    DLTensor strided = tutti_tensor_1d(values, &count, TUTTI_F32);
    DLTensor compact = strided;
    strided.strides = (int64_t *)(uintptr_t)&stride;
    EXPECT(tutti_all_reduce(g, &strided, &strided, TUTTI_SUM, NULL) == TUTTI_TIMEOUT);
    expect_kept();
    for (tutti_wire wire = TUTTI_WIRE_BF16; wire <= TUTTI_WIRE_FP8; wire++) {
        EXPECT(tutti_all_reduce(g, &compact, &compact, TUTTI_SUM, TUTTI_CALL(.wire = wire)) == TUTTI_TIMEOUT);
        expect_kept();
    }
}

static void fail_messages(tutti_group *g, float *values)
{
    const int peer = 1 - tutti_group_rank(g);
    const int64_t count = COUNT;
    const int64_t stride = 2;
    DLTensor strided = tutti_tensor_1d(values, &count, TUTTI_F32);
    DLManagedTensorVersioned *made = NULL;
    strided.strides = (int64_t *)(uintptr_t)&stride;
    EXPECT(tutti_send(g, &strided, peer, 0, NULL) == TUTTI_TIMEOUT);
    expect_kept();
    EXPECT(tutti_recv(g, &strided, peer, 0, NULL, NULL) == TUTTI_TIMEOUT);
    expect_kept();
    EXPECT(tutti_recv_alloc(g, peer, 0, NULL, &made, NULL) == TUTTI_TIMEOUT && !made);
    expect_kept();
}

static tutti_status on_ranks(tutti_group *world, void *user)
{
    const int32_t ranks[RANKS] = {0, 1};
    tutti_group *g = NULL;
    tutti_error e;
    float *values = calloc(2 * COUNT, sizeof(*values));
    (void)user;
    EXPECT_OK(tutti_group_create(world, ranks, RANKS, TUTTI_CONFIG(.backend = "keeps"), &g, &e));
    fail_collectives(g, values);
    fail_messages(g, values);
    EXPECT_OK(tutti_group_destroy(g, &e));
    free(values);
    return TUTTI_OK;
}

int main(void)
{
    static tutti_backend_ops ops;
    static tutti_backend keeps;
    tutti_error e;
    synchronous_local("keeps", keep_collective, &keeps, &ops);
    ops.run_p2p = keep_message;
    ops.capabilities = NULL; /* so the core converts to smaller wires */
    EXPECT_OK(tutti_backend_register(&keeps, &e));
    EXPECT_OK(tutti_run_threads(RANKS, on_ranks, NULL, &e));
    EXPECT_OK(tutti_finalize(&e));
    return test_result();
}
