/* SPDX-License-Identifier: BSD-3-Clause */
/* The words that a thread polls while it waits for messages. */
#ifndef TTI_ENGINE_P2P_MONITOR_H
#define TTI_ENGINE_P2P_MONITOR_H

#include "engine/p2p/types.h"
#include "engine/wait/wait.h"

/* Large: only what is used is filled. */
struct tti_p2p_wait_monitor {
    struct tti_engine *e;
    struct tti_posting *p; /* NULL: any message */
    bool fresh;            /* progress has just filled in the rest */
    bool ready;            /* there is more to do at once */
    int count;
    uint32_t completed_seen;
    bool spins; /* the next wait begins with a spin */
    unsigned spins_in_vain;
    /* of all waits together: once its yields are in vain, each of them sleeps */
    uint32_t yield_count;
    struct tti_yields yields;
    int64_t yield_until;
    bool spun; /* in vain, before the first yield */
    uint64_t seen[TTI_MAX_RANKS];
    struct tti_awaited awaited[TTI_MAX_RANKS];
};

void tti_p2p_wait_monitor_init(struct tti_p2p_wait_monitor *v, struct tti_engine *e, struct tti_posting *p);
/* Fills in the words by which peers let the posting's requests go on. The caller holds the lock. */
void tti_p2p_watch_peers(struct tti_p2p_wait_monitor *v);
/* Whether one of these words has changed. */
bool tti_p2p_peer_has_moved(const struct tti_p2p_wait_monitor *v);
/* The same, or whether a request of this rank has ended. */
bool tti_p2p_has_event(const struct tti_p2p_wait_monitor *v);

#endif
