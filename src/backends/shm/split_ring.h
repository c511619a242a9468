/* SPDX-License-Identifier: BSD-3-Clause */
/* The entries of a split, in the memory of the group that is split: see split_ring.c. `state` is a group of shm. */
#ifndef TTI_BACKENDS_SHM_SPLIT_RING_H
#define TTI_BACKENDS_SHM_SPLIT_RING_H

#include <stdbool.h>
#include <stdint.h>

/* Publishes this rank's entry of split number `serial`. One thread at a time. */
void tti_shm_split_put(void *state, uint32_t serial, int32_t color, int32_t key);

/* Whether the rank has published its entry. */
bool tti_shm_split_find(void *state, int32_t rank, uint32_t serial, int32_t *color, int32_t *key);

/* Waits for the entry until `until_ns`; false: it has not come. */
bool tti_shm_split_await(void *state, int32_t rank, uint32_t serial, int32_t *color, int32_t *key, int64_t until_ns);

enum tti_split_decision {
    TTI_SPLIT_FAILED,
    TTI_SPLIT_COMPLETE,
    TTI_SPLIT_DECIDED_LATER /* a rank has decided on a later split, which hides the decision on this one */
};

/* Decides whether the split is complete; an earlier decision of another rank wins. */
enum tti_split_decision tti_shm_split_decide(void *state, uint32_t serial, bool complete);

#endif
