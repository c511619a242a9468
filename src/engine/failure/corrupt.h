/* SPDX-License-Identifier: BSD-3-Clause */
/* Impossible values in a peer's memory: corrupt.c. */
#ifndef TTI_ENGINE_FAILURE_CORRUPT_H
#define TTI_ENGINE_FAILURE_CORRUPT_H

#include "engine/lane.h"

/* Whether a peer's slot of `call` can hold the number `held`. */
bool tti_arrival_is_possible(const struct tti_lane *lane, uint64_t held, uint64_t call);

/* OK if *word can hold `held` while this rank waits for `target`; else fails the group and returns PEER_CORRUPT. */
tutti_status tti_fault_check_awaited(struct tti_lane *lane, const _Atomic uint64_t *word, uint64_t held,
                                     uint64_t target, int publisher);

/* A peer has published an impossible value of `what`: fails the group and returns PEER_CORRUPT. */
tutti_status tti_fault_corrupt(struct tti_lane *lane, int peer, const char *what, uint64_t value);

#endif
