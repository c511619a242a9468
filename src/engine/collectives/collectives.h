/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives, one file each: all_reduce.c has tti_run_all_reduce. Each function runs the lane's call from its
 * arrival to its end. engine/run.c chooses the function by the operation, before that the class (arrival/class.c).
 *
 * A new algorithm gets a file of its own, which the collective's file calls by size and number of ranks:
 * all_reduce_algorithms.h.
 */
#ifndef TTI_ENGINE_COLLECTIVES_COLLECTIVES_H
#define TTI_ENGINE_COLLECTIVES_COLLECTIVES_H

#include "engine/lane.h"

tutti_status tti_run_barrier(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_reduce(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_reduce(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_broadcast(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_gather(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_gather(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_scatter(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_reduce_scatter(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_to_all(struct tti_lane *lane, const tutti_op *op);

#endif
