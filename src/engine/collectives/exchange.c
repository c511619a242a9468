/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange: in each step everybody stages something, and takes what it needs out of everybody's stage. One epoch a
 * step. Step k + 1 is staged before step k is taken, so that the others find it ready.
 *
 * This is the whole of one-shot all_reduce, all_gather, reduce_scatter and all_to_all, which differ only in what they put
 * into a span and what they take out of it.
 *
 * Whoever exposes its tensors stages nothing until it knows whether all do: then nobody has to.
 *
 * Phases: a rank publishes k + 1 when its span k is there; the arrival says that span 0 is, unless the rank exposes its
 * tensors. It takes step k before it publishes k + 3, so then span k may be written again; the last two are free when the
 * reader arrives at its next call.
 */
#include "engine/collectives/exchange.h"

#include "engine/arrival/arrival.h"
#include "engine/arrival/attributes.h"
#include "engine/collectives/zero_copy.h"
#include "engine/memory/expose.h"
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

static tutti_status arrive(struct tti_lane *lane, const struct tti_exchange *x)
{
    tutti_status mark;
    tutti_status status = tti_stage_begin(lane, x->stride, &mark);
    if (status == TUTTI_OK && mark == TUTTI_OK && !lane->exposed) {
        status = pack(lane, x, 0);
    }
    if (status == TUTTI_OK && (status = tti_arrive_staged(lane, (uint32_t)mark)) == TUTTI_OK &&
        (status = tti_await_all(lane)) == TUTTI_OK) {
        status = tti_attributes_all(lane);
    }
    return status;
}

static tutti_status take(struct tti_lane *lane, const struct tti_exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size; /* everybody starts elsewhere */
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
    return run_steps(lane, x);
}
