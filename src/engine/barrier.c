/* SPDX-License-Identifier: BSD-3-Clause */
/* barrier: an arrival without payload, and everybody's arrival. One epoch, P - 1 overlapping cache-line hops a rank. */
#include "engine/arrival.h"

tutti_status tti_run_barrier(struct tti_lane *lane, const tutti_op *op)
{
    (void)op;
    tutti_status status = tti_arrive_now(lane, NULL, 0, true);
    return status == TUTTI_OK ? tti_await_everybody(lane, true) : status;
}
