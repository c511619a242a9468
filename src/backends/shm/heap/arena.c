/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * First fit over a list of blocks in the order of their offsets; free neighbours are one block. Programs allocate a few
 * large tensors and keep them, so a list is enough. A block of a page and more begins and ends on page boundaries.
 */
#include "backends/shm/heap/arena.h"

#include <stdlib.h>

#define LINE ((size_t)64)

enum use { FREE, TAKEN, DEAD };

struct block {
    struct block *next;
    struct block *previous;
    size_t offset;
    size_t bytes;
    enum use use;
};

struct tti_arena {
    struct block *first;
};

static size_t up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

struct tti_arena *tti_arena_create(size_t capacity)
{
    struct tti_arena *arena = malloc(sizeof(*arena));
    struct block *all = calloc(1, sizeof(*all));
    if (!arena || !all) {
        free(arena);
        free(all);
        return NULL;
    }
    all->bytes = capacity;
    arena->first = all;
    return arena;
}

void tti_arena_destroy(struct tti_arena *arena)
{
    while (arena && arena->first) {
        struct block *next = arena->first->next;
        free(arena->first);
        arena->first = next;
    }
    free(arena);
}

/* Cuts a block in two; the second half begins `bytes` behind the first. */
static bool cut(struct block *b, size_t bytes)
{
    if (bytes == b->bytes) {
        return true;
    }
    struct block *rest = malloc(sizeof(*rest));
    if (!rest) {
        return false;
    }
    *rest = (struct block){
        .next = b->next, .previous = b, .offset = b->offset + bytes, .bytes = b->bytes - bytes, .use = b->use};
    if (b->next) {
        b->next->previous = rest;
    }
    b->next = rest;
    b->bytes = bytes;
    return true;
}

static void join_with_next(struct block *b)
{
    struct block *gone = b->next;
    b->bytes += gone->bytes;
    b->next = gone->next;
    if (gone->next) {
        gone->next->previous = b;
    }
    free(gone);
}

tutti_status tti_heap_arena_alloc(struct tti_arena *arena, size_t bytes, size_t *offset)
{
    size_t alignment = bytes >= TTI_ARENA_HUGE ? TTI_ARENA_HUGE : bytes >= TTI_ARENA_PAGE ? TTI_ARENA_PAGE : LINE;
    size_t unit = bytes >= TTI_ARENA_PAGE ? TTI_ARENA_PAGE : LINE;
    if (bytes > (size_t)-1 - unit) {
        return TUTTI_NO_MEMORY;
    }
    size_t needed = up(bytes, unit);
    for (struct block *b = arena->first; b; b = b->next) {
        size_t gap = up(b->offset, alignment) - b->offset;
        if (b->use != FREE || b->bytes < gap || b->bytes - gap < needed) {
            continue;
        }
        if (gap > 0) {
            if (!cut(b, gap)) {
                return TUTTI_NO_MEMORY;
            }
            b = b->next;
        }
        if (!cut(b, needed)) {
            if (gap > 0) {
                join_with_next(b->previous);
            }
            return TUTTI_NO_MEMORY;
        }
        b->use = TAKEN;
        *offset = b->offset;
        return TUTTI_OK;
    }
    return TUTTI_NO_MEMORY;
}

static struct block *find(const struct tti_arena *arena, size_t offset)
{
    struct block *b = arena->first;
    while (b && b->offset < offset) {
        b = b->next;
    }
    return b && b->offset == offset && b->use == TAKEN ? b : NULL;
}

size_t tti_arena_bytes(const struct tti_arena *arena, size_t offset)
{
    const struct block *b = find(arena, offset);
    return b ? b->bytes : 0;
}

void tti_heap_arena_free(struct tti_arena *arena, size_t offset, bool reusable)
{
    struct block *b = find(arena, offset);
    if (!b) {
        return;
    }
    b->use = reusable ? FREE : DEAD;
    if (reusable && b->next && b->next->use == FREE) {
        join_with_next(b);
    }
    if (reusable && b->previous && b->previous->use == FREE) {
        join_with_next(b->previous);
    }
}
