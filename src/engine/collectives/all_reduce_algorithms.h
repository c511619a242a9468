/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithms of a large all_reduce beside two_shot.h, which serves reduce, too; one file each. all_reduce.c chooses
 * by the bytes of the vector, alike on all ranks. A further one, a ring for instance, gets a file of its own, a line
 * here, its place in all_reduce.c, a value in enum tti_algorithm (engine/lane.h) with its name (engine/engine.c), and
 * its sizes in engine/tuning/tuning.c.
 */
#ifndef TTI_ENGINE_COLLECTIVES_ALL_REDUCE_ALGORITHMS_H
#define TTI_ENGINE_COLLECTIVES_ALL_REDUCE_ALGORITHMS_H

#include "engine/lane.h"

/* `bytes` of the vector. */
tutti_status tti_all_reduce_one_shot(struct tti_lane *lane, const tutti_op *op, size_t bytes);

#endif
