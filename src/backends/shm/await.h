/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for what another rank publishes in its segment while a group is formed. */
#ifndef TTI_BACKENDS_SHM_AWAIT_H
#define TTI_BACKENDS_SHM_AWAIT_H

#include <stdbool.h>

#include "backends/shm/state.h"

/* Wakes the ranks that wait for a change of this process. */
void tti_shm_notify(struct tti_root *root);

/* Waits until is_over is true, or until then. `rank` of the root changes it. Spins, yields and sleeps as the engine
 * does. */
void tti_shm_await(const struct tti_root *root, int rank, const struct tti_engine *engine, bool (*is_over)(void *user),
                   void *user, int64_t until_ns);

#endif
