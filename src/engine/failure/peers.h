/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be told of other ranks: alive or not, and what they did last. */
#ifndef TTI_ENGINE_PEERS_H
#define TTI_ENGINE_PEERS_H

#include "base/proc.h"
#include "engine/lane.h"

/* Which process a rank is, as its segment says. */
struct tti_proc_id tti_peer_id(const struct tti_engine *e, int rank);

/* Whether this process has noticed that the rank's process is dead. */
static inline bool tti_known_dead(const struct tti_engine *e, int rank)
{
    /* acquire: pairs with the release in tti_fault_death */
    return (atomic_load_explicit(&e->dead[rank / 64], memory_order_acquire) >> (rank % 64) & 1) != 0;
}

/* "rank 2 (process 77, stopped; last call: all_reduce, 16), rank 3 (...)", and of those that do not fit only the numbers. */
void tti_peers_text(const struct tti_engine *e, int lane, const uint64_t *ranks, char *text, size_t capacity);

/* The lowest rank of a set, -1 if it is empty. */
int tti_peers_first(const uint64_t *ranks, int size);

#endif
