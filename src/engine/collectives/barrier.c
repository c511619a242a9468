/* SPDX-License-Identifier: BSD-3-Clause */
/* barrier: an arrival without payload, and everybody's arrival. One epoch, P - 1 overlapping cache-line hops a rank. */
#include "engine/arrival/arrival.h"
#include "engine/collectives/collectives.h"

tutti_status tti_run_barrier(struct tti_lane *lane, const tutti_op *op)
{
    (void)op;
    return tti_arrive_and_wait(lane, NULL, 0);
}
