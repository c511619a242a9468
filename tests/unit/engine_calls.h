/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the reference (collective_reference.h) through an engine. */
#ifndef TESTS_UNIT_ENGINE_CALLS_H
#define TESTS_UNIT_ENGINE_CALLS_H

#include "collective_reference.h"
#include "unit/engine_support.h"

static inline tutti_parts parts_of(const struct reference_joined *j, bool uneven, size_t element)
{
    return (tutti_parts){.outer = j->rows,
                         .pitch = j->width * element,
                         .unit = element,
                         .each = uneven ? 0 : j->counts[0],
                         .counts = uneven ? j->counts : NULL};
}

static inline bool sends_joined(tutti_operation kind)
{
    return kind == TUTTI_OP_SCATTER || kind == TUTTI_OP_REDUCE_SCATTER || kind == TUTTI_OP_ALL_TO_ALL;
}

static inline bool receives_joined(tutti_operation kind)
{
    return kind == TUTTI_OP_GATHER || kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_ALL_TO_ALL;
}

/* Elements of the tensor that is not joined, of the input in all_to_all. */
static inline size_t op_count(const struct reference_call *c, int rank)
{
    switch (c->kind) {
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
    case TUTTI_OP_ALL_TO_ALL:
        return reference_input(c, rank);
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_REDUCE_SCATTER:
        return reference_output(c, rank);
    default:
        return c->rows * c->count;
    }
}

typedef tutti_status (*call_runner)(struct tti_engine *e, tutti_op *op, tutti_error *error);

/* Runs one call by `run`; returns 1 if something was wrong, and adds what the engine counted to *moved (may be NULL). */
static inline int run_call_by(call_runner run, struct tti_engine *e, int lane, const struct reference_call *c,
                              uint64_t *moved)
{
    struct reference_tensors t;
    unsigned char *blocks[2] = {malloc(reference_block(c, e->rank)), malloc(reference_block(c, e->rank))};
    if (!blocks[0] || !blocks[1]) {
        abort();
    }
    reference_begin(c, e->rank, blocks, &t);
    const struct reference_joined sent = reference_sent(c, e->rank);
    const struct reference_joined received = reference_received(c, e->rank);
    size_t element = tutti_dtype_size(c->dtype);
    tutti_op op = op_of(c->kind, t.in_bytes ? t.in : NULL, t.out_bytes ? t.out : NULL, op_count(c, e->rank), c->root);
    op.lane = lane;
    op.dtype = c->dtype;
    if (sends_joined(c->kind)) {
        op.send_parts = parts_of(&sent, c->uneven, element);
    }
    if (receives_joined(c->kind)) {
        op.recv_parts = parts_of(&received, c->uneven, element);
    }
    tutti_error error;
    uint64_t before = e->lanes[lane].moved;
    tutti_status status = run(e, &op, &error);
    if (moved) {
        *moved += e->lanes[lane].moved - before;
    }
    int wrong = reference_end(c, e->rank, &t, status, &error);
    free(blocks[0]);
    free(blocks[1]);
    return wrong;
}

static inline int run_call(struct tti_engine *e, int lane, const struct reference_call *c, uint64_t *moved)
{
    return run_call_by(tti_engine_run, e, lane, c, moved);
}

#endif
