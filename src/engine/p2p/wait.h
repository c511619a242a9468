/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for messages. The caller does not hold the lock. */
#ifndef TTI_ENGINE_P2P_WAIT_H
#define TTI_ENGINE_P2P_WAIT_H

#include "engine/p2p/monitor.h"

/* Polls, or yields, for a short while for this record of the peer. */
bool tti_p2p_await_record(const struct tti_engine *e, int peer, uint64_t number);
/* Makes progress; true if the posting is over. */
bool tti_p2p_test(struct tti_posting *p);
/* Waits until the monitor's posting is over: true. False: until_ns has passed, or tti_engine_wake_p2p was called since
 * the last test. */
bool tti_p2p_wait(struct tti_p2p_wait_monitor *v, int64_t until_ns);
/* Waits until any message may go on. */
void tti_p2p_wait_any(struct tti_engine *e, int64_t until_ns);

#endif
