/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of the messages of all threads of this rank. */
#ifndef TTI_ENGINE_P2P_PROGRESS_H
#define TTI_ENGINE_P2P_PROGRESS_H

#include "engine/p2p/monitor.h"

/* A bounded number of rounds; `all`: visits all peers and reads all records. If there is a monitor and its posting is
 * not done, fills it for waiting. *more: there is more to do. The caller holds the lock. */
tutti_status tti_p2p_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, bool *more,
                              tutti_error *error);
/* The same. Takes the lock, and wakes threads whose requests have ended. A failure fails the group. */
tutti_status tti_p2p_make_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, bool *more,
                                   tutti_error *error);
/* Takes the lock and reads all that peers have written before. A failure fails the group. */
tutti_status tti_p2p_drain(struct tti_engine *e, tutti_error *error);
/* Wakes the threads that sleep on `completed`, which the caller has incremented. */
void tti_p2p_wake(struct tti_engine *e);
bool tti_p2p_all_done(const struct tti_posting *p);

#endif
