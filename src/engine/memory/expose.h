/* SPDX-License-Identifier: BSD-3-Clause */
/* Which tensors the ranks of a large call can reach in place: expose.c. */
#ifndef TTI_ENGINE_MEMORY_EXPOSE_H
#define TTI_ENGINE_MEMORY_EXPOSE_H

#include "engine/lane.h"

/* Before the arrival: sets lane->exposed, and the names to publish (lane->input, lane->output). */
void tti_expose(struct tti_lane *lane, const tutti_op *op);

/* After it: turns a peer's names into addresses (lane->inputs, lane->outputs). PEER_CORRUPT if a name is wrong. */
tutti_status tti_locate(struct tti_lane *lane, int peer, uint64_t input, uint64_t output);

/* Whether this rank can reach all that it needs of a rank's tensors / the same of all ranks. */
bool tti_exposes_all_needed(const struct tti_lane *lane, int rank);
static inline bool tti_exposes(const struct tti_lane *lane, int rank)
{
    return lane->named && tti_exposes_all_needed(lane, rank);
}
bool tti_all_expose(const struct tti_lane *lane);

/* Whether peers write a rank's output, if all ranks expose their tensors; and the output's bytes. */
bool tti_peers_write_output(const struct tti_lane *lane, int rank);
size_t tti_output_extent(const struct tti_lane *lane, const tutti_op *op);

/* The call has ended: it no longer uses what it has located. */
void tti_release_heap(struct tti_lane *lane);

/* Whether no call uses what it looked up in the heap before that withdrawal. Any thread. */
bool tti_heap_is_quiescent(const struct tti_engine *e, uint64_t withdrawal);

#endif
