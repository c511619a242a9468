/* SPDX-License-Identifier: BSD-3-Clause */
/* The entries of a split, in the memory of the group that is split: see split_ring.c. `state` is a group of shm. */
#ifndef TTI_BACKENDS_SHM_SPLIT_RING_H
#define TTI_BACKENDS_SHM_SPLIT_RING_H

#include <stdbool.h>
#include <stdint.h>

/* Publishes this rank's entry of split number `serial`. One thread at a time. */
void tti_split_put(void *state, uint32_t serial, int32_t color, int32_t key);

/* Whether the rank has published its entry. */
bool tti_split_find(void *state, int32_t rank, uint32_t serial, int32_t *color, int32_t *key);

/* The same, and waits for it until then. */
bool tti_split_await(void *state, int32_t rank, uint32_t serial, int32_t *color, int32_t *key, int64_t until_ns);

#endif
