/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a waiting rank spins and yields before it sleeps. */
#ifndef TTI_ENGINE_WAIT_POLICY_H
#define TTI_ENGINE_WAIT_POLICY_H

#include "engine/lane.h"

/* Sets spin and yield times of the engine: the given ones where they are not negative, else by ranks per CPU. Reads the
 * headers of all segments. */
void tti_wait_policy(struct tti_engine *e, int64_t spin_ns, int64_t yield_ns);

/* Sets spin and yield times of the lane's call. A call beside the application's own threads must leave them their
 * CPUs. */
void tti_wait_begin(struct tti_lane *lane);

#endif
