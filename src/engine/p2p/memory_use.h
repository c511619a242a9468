/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages under way, and the memory that they touch: for a backend that is about to take memory away. */
#ifndef TTI_ENGINE_P2P_MEMORY_USE_H
#define TTI_ENGINE_P2P_MEMORY_USE_H

#include <stdbool.h>
#include <stddef.h>

struct tti_engine;

/* Whether a message of this rank that has not ended has its tensor in [memory, memory + bytes), or a part of it. */
bool tti_p2p_uses(const struct tti_engine *e, const void *memory, size_t bytes);

/* Returns when no thread of this rank touches memory of another one any more whose address it looked up before. */
void tti_p2p_quiesce(const struct tti_engine *e);

#endif
