/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of a rank's heap: which regions it has, and what it has mapped of the other members. */
#ifndef TTI_BACKENDS_SHM_HEAP_SHARED_H
#define TTI_BACKENDS_SHM_HEAP_SHARED_H

#include "backends/shm/heap/state.h"

/* Stores in each view, or in one, which own regions it may name now. Under the lock. */
void tti_heap_publish(struct tti_heap_shared *h);
void tti_heap_publish_in(struct tti_heap_shared *h, struct tti_heap_view *v);

/* All ranks of the view have mapped the own region. Under the lock. */
void tti_heap_mark_mapped(struct tti_heap_view *v, unsigned region);

/* Replaces this process's mapping of a member's region. The old mapping is unmapped when no message and no collective
 * uses it any more, perhaps by a later call. Under the lock. */
void tti_heap_replace(struct tti_heap_shared *h, int member, unsigned region, uint64_t word);

/* The group ops, valid for the duration of the calling function. Takes the lock. */
struct tti_heap_group_ops tti_heap_group_ops_of(struct tti_heap_view *v);

/* Takes a free region: its index, or 0 if there is none. Under the lock. */
unsigned tti_heap_alloc_region(struct tti_heap_shared *h);

/* Gives a region back whose memory is gone already. Under the lock. */
void tti_heap_free_region(struct tti_heap_shared *h, unsigned region);

#endif
