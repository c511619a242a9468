/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call different things: mismatch.c. Nothing here runs while all ranks call the same. */
#ifndef TTI_ENGINE_ARRIVAL_MISMATCH_H
#define TTI_ENGINE_ARRIVAL_MISMATCH_H

#include "engine/lane.h"

/* All ranks have arrived, and a line differs from the own one, or a rank has cancelled. OK: the call goes on. */
tutti_status tti_find_difference(struct tti_lane *lane);

/* The same for one peer that this rank waits for. */
__attribute__((cold)) tutti_status tti_find_difference_of(struct tti_lane *lane, int peer);

/* This rank knows that its own call differs from the others': later calls do not report that. */
void tti_mark_all_reported(struct tti_lane *lane);

#endif
