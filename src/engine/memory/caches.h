/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the results of a call are written past the caches: caches.c. */
#ifndef TTI_ENGINE_MEMORY_CACHES_H
#define TTI_ENGINE_MEMORY_CACHES_H

#include "engine/lane.h"

/* Sets lane->streams and lane->cold for what the call writes from now on: folds and copies out of a stage, or copies
 * from tensors. Out of a stage it may write to the output, so the call must not have arrived yet. */
void tti_choose_stores(struct tti_lane *lane, const tutti_op *op, bool from_stage);

#endif
