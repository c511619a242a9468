/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier: a flat all-to-all notification. Every rank publishes an arrival without payload and waits for all arrivals.
 * Cost: one epoch, P - 1 cache-line hops a rank that overlap. A dissemination barrier would need fewer hops, but log P
 * epochs.
 */
#include "engine/arrival/arrival.h"
#include "engine/collectives/collectives.h"

tutti_status tti_run_barrier(struct tti_lane *lane, const tutti_op *op)
{
    (void)op;
    return tti_arrive_and_wait(lane, NULL, 0);
}
