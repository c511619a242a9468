/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that take part no more: dead, or they have left. A shrink leaves them out, and a caller may ask why one of them
 * is absent. Nothing here waits: a rank is absent as far as this process has noticed, and only a process without a
 * liveness monitor is looked up in /proc (some 50 us for each rank).
 */
#include "engine/failure/absent.h"

#include <stdio.h>

#include "engine/failure/fault.h"
#include "engine/failure/peer_death.h"
#include "engine/failure/peers.h"

bool tti_is_absent(const struct tti_engine *e, int rank)
{
    return tti_known_dead(e, rank) || tti_has_left(e, rank) ||
           (e->futex_private == 0 && tti_peer_is_marked_dead(e, rank));
}

static bool is_lost(struct tti_engine *e, int rank)
{
    /* relaxed: /proc is needed for a process without a liveness monitor */
    if (e->futex_private == 0 && atomic_load_explicit(&tti_home(e, rank)->life, memory_order_relaxed) == 0) {
        tti_fault_check_peer(e, rank);
    }
    return rank != e->rank && tti_is_absent(e, rank);
}

void tti_engine_lost(struct tti_engine *e, uint64_t *ranks)
{
    memset(ranks, 0, ((size_t)e->size + 63) / 64 * sizeof(*ranks));
    for (int r = 0; r < e->size; r++) {
        if (is_lost(e, r)) {
            tti_peers_add(ranks, r);
        }
    }
}

tutti_status tti_engine_peer_status(struct tti_engine *e, int rank, tutti_error *error)
{
    if (!is_lost(e, rank)) {
        return tti_error_clear(error);
    }
    char text[160];
    tutti_status status = TUTTI_PEER_LEFT;
    if (!tti_has_left(e, rank)) {
        const struct tti_proc_id id = tti_peer_id(e, rank);
        const struct tti_proc now = tti_proc_query(&id);
        status = tti_proc_describe_end(rank, &id, &now, text, sizeof(text));
    } else {
        tti_peers_left_text(e, rank, text, sizeof(text));
    }
    tti_error_set(error, status, "%s", text);
    error->suspect = rank;
    return status;
}
