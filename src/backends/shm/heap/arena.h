/* SPDX-License-Identifier: BSD-3-Clause */
/* Which parts of an arena are taken: offsets only, kept outside the memory that peers can write. The caller locks. */
#ifndef TTI_BACKENDS_SHM_HEAP_ARENA_H
#define TTI_BACKENDS_SHM_HEAP_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <tutti/status.h>

#define TTI_ARENA_PAGE ((size_t)4096)
#define TTI_ARENA_HUGE ((size_t)2 << 20)

struct tti_arena;

/* NULL without memory. capacity is a multiple of TTI_ARENA_PAGE. */
struct tti_arena *tti_arena_create(size_t capacity);
void tti_arena_destroy(struct tti_arena *arena);

/* The first place where so many bytes fit, aligned to 64 bytes, a page, or 2 MiB by their number. NO_MEMORY. */
tutti_status tti_heap_arena_alloc(struct tti_arena *arena, size_t bytes, size_t *offset);

/* The bytes of the block that begins there, rounded up as they were taken; 0 if there is none. */
size_t tti_arena_bytes(const struct tti_arena *arena, size_t offset);

/* Gives a block back. Not `reusable`: its place is never allocated again. */
void tti_heap_arena_free(struct tti_arena *arena, size_t offset, bool reusable);

#endif
