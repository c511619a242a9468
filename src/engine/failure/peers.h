/* SPDX-License-Identifier: BSD-3-Clause */
/* Other ranks by name: their processes, and their last calls as text for error sentences. */
#ifndef TTI_ENGINE_FAILURE_PEERS_H
#define TTI_ENGINE_FAILURE_PEERS_H

#include <stdbool.h>

#include "base/process/proc.h"
#include "engine/lane.h"

/* The process of a rank, as its segment gives it. */
struct tti_proc_id tti_peer_id(const struct tti_engine *e, int rank);

/* "rank 2 (process 77, stopped; last call: all_reduce, 16), rank 3 (...), rank 5, 6": only numbers of the ranks whose
 * details do not fit. The backend hier finds the numbers in the sentence by the word before them. */
void tti_peers_text(const struct tti_engine *e, int lane, const uint64_t *ranks, char *text, size_t capacity);

/* That a rank has left, and its process, if the ranks are processes. */
void tti_peers_left_text(const struct tti_engine *e, int rank, char *text, size_t capacity);

/* Sets of ranks: one bit for each. */
static inline void tti_peers_add(uint64_t *ranks, int rank)
{
    ranks[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static inline bool tti_peers_has(const uint64_t *ranks, int rank)
{
    return (ranks[rank / 64] >> (rank % 64) & 1) != 0;
}

/* The lowest rank of a set, -1 if it is empty. */
int tti_peers_first(const uint64_t *ranks, int size);

#endif
