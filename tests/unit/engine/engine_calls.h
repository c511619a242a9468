/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the reference (collective_reference.h) through an engine. */
#ifndef TESTS_UNIT_ENGINE_ENGINE_CALLS_H
#define TESTS_UNIT_ENGINE_ENGINE_CALLS_H

#include "collective_reference.h"
#include "unit/engine/engine_support.h"

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

/* One call with its tensors. It has pointers into itself, so it must not be copied. */
struct prepared_call {
    struct reference_tensors tensors;
    unsigned char *blocks[2];
    struct reference_joined sent;
    struct reference_joined received;
    tutti_op op;
};

static inline void call_begin(struct prepared_call *p, const struct reference_call *c, int rank, int lane)
{
    p->blocks[0] = malloc(reference_block(c, rank));
    p->blocks[1] = malloc(reference_block(c, rank));
    if (!p->blocks[0] || !p->blocks[1]) {
        abort();
    }
    struct reference_tensors *t = &p->tensors;
    reference_begin(c, rank, p->blocks, t);
    p->sent = reference_sent(c, rank);
    p->received = reference_received(c, rank);
    size_t element = tutti_dtype_size(c->dtype);
    p->op = op_of(c->kind, t->in_bytes ? t->in : NULL, t->out_bytes ? t->out : NULL, op_count(c, rank), c->root);
    p->op.lane = lane;
    p->op.dtype = c->dtype;
    if (sends_joined(c->kind)) {
        p->op.send_parts = parts_of(&p->sent, c->uneven, element);
    }
    if (receives_joined(c->kind)) {
        p->op.recv_parts = parts_of(&p->received, c->uneven, element);
    }
}

/* Frees it. Returns 1 if it failed or the result is wrong. */
static inline int call_end(struct prepared_call *p, const struct reference_call *c, int rank, tutti_status status,
                           const tutti_error *error)
{
    const int wrong = reference_end(c, rank, &p->tensors, status, error);
    free(p->blocks[0]);
    free(p->blocks[1]);
    return wrong;
}

/* Frees it without a check. */
static inline void call_drop(struct prepared_call *p)
{
    free(p->tensors.expected);
    free(p->blocks[0]);
    free(p->blocks[1]);
}

typedef tutti_status (*call_runner)(struct tti_engine *e, tutti_op *op, tutti_error *error);

/* Runs one call by `run`; returns 1 on a fault, and adds the bytes that the engine counted to *moved (may be NULL). */
static inline int run_call_by(call_runner run, struct tti_engine *e, int lane, const struct reference_call *c,
                              uint64_t *moved)
{
    struct prepared_call p;
    tutti_error error;
    call_begin(&p, c, e->rank, lane);
    uint64_t before = e->lanes[lane].bytes_copied;
    tutti_status status = run(e, &p.op, &error);
    if (moved) {
        *moved += e->lanes[lane].bytes_copied - before;
    }
    return call_end(&p, c, e->rank, status, &error);
}

static inline int run_call(struct tti_engine *e, int lane, const struct reference_call *c, uint64_t *moved)
{
    return run_call_by(tti_engine_run, e, lane, c, moved);
}

#endif
