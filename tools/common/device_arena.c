/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks have sizes that are powers of two. What is given back goes into the list of its size, from where the next
 * block of that size is taken. The lists lie in host memory, since the CPU cannot write into a device's.
 */
#include "common/device_arena.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

enum { LEAST = 10 /* the smallest block has 1 KiB */, SIZES = 64 - LEAST };

/* A slab, or a block that was given back. */
struct block {
    unsigned char *memory;
    struct block *next;
};

struct tti_device_arena {
    const struct tti_device *driver;
    DLDevice where;
    int64_t timeout_ms;
    size_t slab;
    pthread_mutex_t mutex;
    /* all below: under the mutex */
    void *stream;
    void *event;
    struct block *slabs; /* the newest one first; it is cut from `used` on */
    size_t capacity;     /* of that one */
    size_t used;
    struct block *spare[SIZES];
};

static size_t size_of(size_t bytes)
{
    size_t size = 0;
    while (size < SIZES - 1 && (size_t)1 << (size + LEAST) < bytes) {
        size++;
    }
    return size;
}

static tutti_status push(struct block **list, void *memory, tutti_error *error)
{
    struct block *block = malloc(sizeof(*block));
    if (!block) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory to remember a block of device memory");
    }
    *block = (struct block){.memory = memory, .next = *list};
    *list = block;
    return TUTTI_OK;
}

static void *pop(struct block **list)
{
    struct block *block = *list;
    void *memory = block->memory;
    *list = block->next;
    free(block);
    return memory;
}

static tutti_status add_slab(struct tti_device_arena *arena, size_t block, tutti_error *error)
{
    const size_t bytes = block > arena->slab ? block : arena->slab;
    void *memory = NULL;
    tutti_status status = tti_device_alloc(arena->where, bytes, &memory, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = push(&arena->slabs, memory, error);
    if (status != TUTTI_OK) {
        tti_device_free(arena->where, memory);
        return status;
    }
    arena->capacity = bytes;
    arena->used = 0;
    return TUTTI_OK;
}

static tutti_status open_stream(struct tti_device_arena *arena, tutti_error *error)
{
    struct tti_device_scope scope;
    tutti_status status = arena->driver->enter(arena->where.device_id, &scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = arena->driver->stream_create(&arena->stream, error);
    if (status == TUTTI_OK) {
        status = arena->driver->event_create(&arena->event, error);
    }
    arena->driver->leave(&scope);
    return status;
}

tutti_status tti_device_arena_open(DLDevice where, size_t slab, int64_t timeout_ms, struct tti_device_arena **arena,
                                   tutti_error *error)
{
    struct tti_device_arena *a = calloc(1, sizeof(*a));
    if (!a) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for an arena");
    }
    a->driver = tti_device_of(where.device_type);
    a->where = where;
    a->slab = slab;
    a->timeout_ms = timeout_ms;
    pthread_mutex_init(&a->mutex, NULL);
    tutti_status status = open_stream(a, error);
    if (status == TUTTI_OK) {
        status = add_slab(a, 0, error);
    }
    if (status != TUTTI_OK) {
        tti_device_arena_close(a);
        return status;
    }
    *arena = a;
    return TUTTI_OK;
}

void tti_device_arena_close(struct tti_device_arena *arena)
{
    struct tti_device_scope scope;
    if (!arena) {
        return;
    }
    while (arena->slabs) {
        tti_device_free(arena->where, pop(&arena->slabs));
    }
    if (arena->driver->enter(arena->where.device_id, &scope, NULL) == TUTTI_OK) {
        if (arena->event) {
            arena->driver->event_destroy(arena->event, NULL);
        }
        if (arena->stream) {
            arena->driver->stream_destroy(arena->stream, NULL);
        }
        arena->driver->leave(&scope);
    }
    for (size_t size = 0; size < SIZES; size++) {
        while (arena->spare[size]) {
            pop(&arena->spare[size]);
        }
    }
    pthread_mutex_destroy(&arena->mutex);
    free(arena);
}

const struct tti_device *tti_device_arena_driver(const struct tti_device_arena *arena)
{
    return arena->driver;
}

DLDevice tti_device_arena_device(const struct tti_device_arena *arena)
{
    return arena->where;
}

tutti_status tti_device_arena_alloc(struct tti_device_arena *arena, size_t bytes, void **memory, tutti_error *error)
{
    const size_t size = size_of(bytes);
    const size_t block = (size_t)1 << (size + LEAST);
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&arena->mutex);
    if (arena->spare[size]) {
        *memory = pop(&arena->spare[size]);
    } else {
        /* what is left of the old slab is lost until the end */
        status = arena->capacity - arena->used < block ? add_slab(arena, block, error) : TUTTI_OK;
        if (status == TUTTI_OK) {
            *memory = arena->slabs->memory + arena->used;
            arena->used += block;
        }
    }
    pthread_mutex_unlock(&arena->mutex);
    return status;
}

void tti_device_arena_free(struct tti_device_arena *arena, void *memory, size_t bytes)
{
    if (!memory) {
        return;
    }
    pthread_mutex_lock(&arena->mutex);
    /* without memory to remember the block, it stays in use until the end */
    (void)push(&arena->spare[size_of(bytes)], memory, NULL);
    pthread_mutex_unlock(&arena->mutex);
}

/* Inside. */
static tutti_status copy_and_wait(struct tti_device_arena *arena, void *dst, const void *src, size_t bytes,
                                  tutti_error *error)
{
    tutti_status status = arena->driver->copy(dst, src, bytes, arena->stream, error);
    if (status == TUTTI_OK) {
        status = arena->driver->event_record(arena->event, arena->stream, error);
    }
    if (status == TUTTI_OK) {
        const int64_t deadline = tti_deadline_ns(tti_now_ns(), arena->timeout_ms);
        status = tti_device_await(arena->driver, arena->event, deadline, error);
    }
    return status;
}

tutti_status tti_device_arena_copy(struct tti_device_arena *arena, void *dst, const void *src, size_t bytes,
                                   tutti_error *error)
{
    struct tti_device_scope scope;
    if (bytes == 0) {
        return TUTTI_OK;
    }
    tutti_status status = arena->driver->enter(arena->where.device_id, &scope, error);
    if (status == TUTTI_OK) {
        pthread_mutex_lock(&arena->mutex);
        status = copy_and_wait(arena, dst, src, bytes, error);
        pthread_mutex_unlock(&arena->mutex);
        arena->driver->leave(&scope);
    }
    return status;
}
