/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap as the engine sees it: memory of one rank that all members of a group may read and write where it lies. A rank
 * tells the others where its tensor is by a name (region and offset), which every member turns into an address of its own.
 *
 * The backend makes the memory and fills this table; the engine only looks things up, once for each buffer of a call. One
 * table serves a group and the sub-groups below it: members are numbered as in the group that made it.
 *
 * Names come from other processes: they are checked against the table, bounds included, before anything is touched.
 */
#ifndef TTI_ENGINE_HEAP_H
#define TTI_ENGINE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct tti_heap;

/* The name of [memory, memory + bytes), which must lie in one region of this rank; 0 = private memory. Never blocks. */
uint64_t tti_heap_name(const struct tti_heap *heap, const void *memory, size_t bytes);

/* Where this rank sees what `member` calls `name`; NULL if that is not `bytes` bytes of one of its regions. */
unsigned char *tti_heap_address(const struct tti_heap *heap, int member, uint64_t name, size_t bytes);

/* Takes the whole pages of [memory, memory + bytes), a receive buffer of this rank, away from the others: they keep what
 * they had mapped, this rank gets fresh pages of undefined content, and the range is private from now on. */
void tti_heap_orphan(struct tti_heap *heap, void *memory, size_t bytes);

#endif
