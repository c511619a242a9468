/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that unfinished messages use: for a backend that is about to withdraw memory. */
#ifndef TTI_ENGINE_P2P_MEMORY_USE_H
#define TTI_ENGINE_P2P_MEMORY_USE_H

#include <stdbool.h>
#include <stddef.h>

struct tti_engine;

/* Whether the tensor of an unfinished message of this rank overlaps [memory, memory + bytes). */
bool tti_p2p_uses(const struct tti_engine *e, const void *memory, size_t bytes);

/* Returns when no thread of this rank uses an address of a peer's memory that it looked up before this call. */
void tti_p2p_quiesce(const struct tti_engine *e);

#endif
