/* SPDX-License-Identifier: BSD-3-Clause */
/* Two-shot: a vector is reduced slice by slice, one slice a rank. two_shot.c has the protocol. */
#ifndef TTI_ENGINE_COLLECTIVES_TWO_SHOT_H
#define TTI_ENGINE_COLLECTIVES_TWO_SHOT_H

#include "engine/lane.h"

/* Runs an all_reduce or a reduce of the large class. */
tutti_status tti_two_shot(struct tti_lane *lane, const tutti_op *op);

#endif
