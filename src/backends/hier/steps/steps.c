/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on the engines of a group. All steps of a call share its deadline: they begin when the call began. A step
 * that fails fails the group (failure.c).
 */
#include "backends/hier/steps/steps.h"

#include <stdint.h>
#include <stdlib.h>

#include "backends/hier/failure.h"
#include "base/clock.h"
#include "base/error.h"

/* After a time-out in a step: how often a rank polls for a better cause, every 10 ms. A deadline may be overrun by a
 * second; on a machine so busy that time-outs come late, the polls take longer, too. */
enum { BETWEEN_POLLS = 25, LATER_POLLS = 70 };

tutti_op tti_hier_step(const struct tti_hier_call *c, tutti_operation kind, tutti_dtype dtype)
{
    return (tutti_op){
        .size = sizeof(tutti_op),
        .kind = kind,
        .dtype = dtype,
        .lane = c->op->lane,
        .user_tag = c->op->user_tag,
        .ndim = 1,
        .timeout_ms = c->op->timeout_ms, /* unchanged: some engines choose their algorithm by it, on all ranks alike */
        .begun_ns = c->begun_ns,
        .background = c->op->background};
}

static tutti_status run(struct tti_hier_call *c, const tutti_engine *engine, tutti_op *op, int32_t polls,
                        tutti_error *error)
{
    tutti_status status = engine->backend->ops->run(engine->state, op, error);
    if (status == TUTTI_OK) {
        return status;
    }
    if (op->in_use) {
        atomic_store_explicit(&c->lane->in_use, 1, memory_order_relaxed);
    }
    status = tti_hier_fail(c->s, engine, c->op->lane, polls, error);
    const int64_t elapsed_ms = (tti_now_ns() - c->begun_ns) / 1000000;
    const bool too_soon = status == TUTTI_TIMEOUT && (op->timeout_ms < 0 || elapsed_ms < op->timeout_ms / 2);
    return too_soon ? tti_hier_usable(c->s, error)
                    : status; /* the time-out is another rank's, which perhaps waited for this one */
}

tutti_status tti_hier_run_intra_host(struct tti_hier_call *c, tutti_op *op, tutti_error *error)
{
    op->background = op->background ? op->background : TUTTI_BESIDE_NETWORK;
    return run(c, c->s->inner, op, c->first ? 0 : LATER_POLLS, error);
}

tutti_status tti_hier_run_inter_host(struct tti_hier_call *c, tutti_op *op, tutti_error *error)
{
    return run(c, c->s->rail, op, BETWEEN_POLLS, error);
}

tutti_status tti_hier_run_flat(struct tti_hier_call *c, tutti_op *op, tutti_error *error)
{
    return run(c, c->s->flat, op, 0, error);
}

unsigned char *tti_hier_scratch(struct tti_hier_call *c, size_t bytes, tutti_error *error)
{
    struct tti_hier_lane *lane = c->lane;
    if (bytes > lane->scratch_bytes || !lane->scratch) {
        free(lane->scratch);
        lane->scratch_bytes = 0;
        lane->scratch = bytes <= SIZE_MAX - 8192 ? aligned_alloc(4096, (bytes + 4096) / 4096 * 4096) : NULL;
        if (!lane->scratch) {
            tti_error_set(error, TUTTI_NO_MEMORY, "%s: rank %d has no memory for %zu bytes of scratch",
                          tutti_operation_name(c->op->kind), c->s->rank, bytes);
            error->suspect = c->s->rank;
            error->scope = TUTTI_SCOPE_GROUP;
            tti_hier_abort(c->s, c->op->lane, error);
            return NULL;
        }
        lane->scratch_bytes = bytes;
    }
    return lane->scratch;
}
