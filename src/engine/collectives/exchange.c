/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange: in each step every rank stages a span and reads what it needs from all peers' spans (direct algorithm,
 * all pairs at once). Cost: one epoch a step. A rank stages step k + 1 before it reads step k, so the peers find it
 * ready.
 *
 * One-shot all_reduce, all_gather, reduce_scatter and all_to_all are exchanges. They differ only in what they put into
 * a span and what they read from it.
 *
 * A rank that exposes its tensors stages nothing until all have arrived. If all ranks expose theirs, no rank stages.
 *
 * Phases: a rank publishes k + 1 when its span k is there. The arrival covers span 0, unless the rank exposes its
 * tensors. A rank reads step k before it publishes k + 3, so the writer may then use span k again. The last two spans
 * are free when the reader arrives at its next call.
 */
#include "engine/collectives/exchange.h"

#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/collectives/zero_copy.h"
#include "engine/memory/expose.h"
#include "engine/memory/prefetch.h"
#include "engine/memory/stage.h"

static tutti_status pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k)
{
    unsigned char *span;
    tutti_status status = tti_stage_acquire(lane, k, &span);
    if (status == TUTTI_OK) {
        x->pack(lane, x, k, span);
        tti_stage_stamp(lane, k + 2 < x->steps ? k + 3 : TTI_PHASE_NEXT, -1);
    }
    return status;
}

/* One-shot all_reduce loses by it: decision 46. */
static bool prefetches(const struct tti_lane *lane, const struct tti_exchange *x)
{
    return x->op->kind != TUTTI_OP_ALL_REDUCE && tti_prefetch_pays(lane, x->stride);
}

static tutti_status arrive(struct tti_lane *lane, const struct tti_exchange *x)
{
    tutti_status resource_error;
    const bool small = x->steps <= 2 && x->stride <= TTI_SMALL_EXCHANGE;
    tutti_status status = tti_stage_begin(lane, x->stride, x->steps, small, &resource_error);
    if (prefetches(lane, x)) {
        tti_prefetch_note_pause(lane);
    }
    if (status == TUTTI_OK && resource_error == TUTTI_OK && !lane->exposed) {
        status = pack(lane, x, 0);
    }
    if (status == TUTTI_OK && (status = tti_arrive_staged(lane, (uint32_t)resource_error)) == TUTTI_OK &&
        (status = tti_await_all(lane)) == TUTTI_OK) {
        status = tti_attributes_all(lane);
    }
    return status;
}

static tutti_status take(struct tti_lane *lane, const struct tti_exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size; /* every rank starts at another peer */
        tutti_status status = tti_await_span(lane, peer, k, k + 1);
        if (status != TUTTI_OK) {
            return status;
        }
        if (x->take) {
            x->take(lane, x, k, peer);
        }
    }
    if (x->take_all) {
        x->take_all(lane, x, k);
    }
    return TUTTI_OK;
}

static tutti_status run_steps(struct tti_lane *lane, const struct tti_exchange *x)
{
    tutti_status status = TUTTI_OK;
    for (size_t k = lane->exposed ? 0 : 1; k <= x->steps && status == TUTTI_OK; k++) {
        if (k < x->steps) {
            if ((status = pack(lane, x, k)) != TUTTI_OK) {
                break;
            }
            tti_advance(lane, k + 1);
        }
        if (k > 0) {
            status = take(lane, x, k - 1);
        }
    }
    return status;
}

tutti_status tti_exchange_run(struct tti_lane *lane, struct tti_exchange *x)
{
    tutti_status status = arrive(lane, x);
    if (status != TUTTI_OK) {
        return status;
    }
    if (tti_all_expose(lane)) {
        return tti_run_zero_copy(lane, x->op);
    }
    if (x->agreed && (status = x->agreed(lane, x)) != TUTTI_OK) {
        return status;
    }
    lane->algorithm = x->op->kind == TUTTI_OP_ALL_REDUCE ? TTI_ALGORITHM_ONE_SHOT : tti_algorithm_of_steps(x->steps);
    status = run_steps(lane, x);
    if (prefetches(lane, x)) {
        tti_prefetch_request(lane, x->stride);
    }
    return status;
}
