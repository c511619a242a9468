/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors that are copied as a whole, pinned memory for them, and marks on streams. */
#include <stdlib.h>

#include "base/error.h"
#include "core/group.h"
#include "core/staging_state.h"

#define BLOCKS 8 /* pinned memory that waits to be used again */

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* A free block that is large enough, the smallest of them. */
static struct tti_staging_block *find_block(struct tti_staging *s, size_t bytes)
{
    struct tti_staging_block *best = NULL;
    for (size_t i = 0; i < s->block_count; i++) {
        struct tti_staging_block *b = &s->blocks[i];
        if (!b->taken && b->bytes >= bytes && (!best || b->bytes < best->bytes)) {
            best = b;
        }
    }
    return best;
}

static struct tti_staging_block *add_block(struct tti_staging *s)
{
    if (s->block_count == s->block_room) {
        const size_t room = s->block_room > 0 ? 2 * s->block_room : BLOCKS;
        struct tti_staging_block *more = realloc(s->blocks, room * sizeof(*more));
        if (!more) {
            return NULL;
        }
        s->blocks = more;
        s->block_room = room;
    }
    return &s->blocks[s->block_count];
}

/* With the lock held. */
static void *make_block(struct tti_staging *s, size_t bytes)
{
    struct tti_device_scope scope;
    struct tti_staging_block *b = add_block(s);
    void *memory = NULL;
    if (b && s->device->enter(s->index, &scope, NULL) == TUTTI_OK) {
        const size_t whole = (bytes + 4095) / 4096 * 4096;
        if (s->device->alloc_host(whole, &memory, NULL) == TUTTI_OK) {
            *b = (struct tti_staging_block){.memory = memory, .bytes = whole, .taken = true};
            s->block_count++;
        }
        s->device->leave(&scope);
    }
    return memory;
}

void *tti_staging_take(struct tti_group *g, size_t bytes)
{
    struct tti_staging *s = g->staging;
    pthread_mutex_lock(&s->lock);
    struct tti_staging_block *b = find_block(s, bytes);
    void *memory = b ? b->memory : make_block(s, bytes);
    if (b) {
        b->taken = true;
    }
    pthread_mutex_unlock(&s->lock);
    return memory;
}

void tti_staging_give(struct tti_group *g, void *memory)
{
    struct tti_staging *s = g->staging;
    size_t idle = 0;
    size_t own = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->block_count; i++) {
        own = s->blocks[i].memory == memory ? i : own;
        idle += !s->blocks[i].taken;
    }
    s->blocks[own].taken = false;
    if (idle >= BLOCKS) { /* enough of them wait already */
        s->blocks[own] = s->blocks[--s->block_count];
    } else {
        memory = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    struct tti_device_scope scope;
    if (memory && s->device->enter(s->index, &scope, NULL) == TUTTI_OK) {
        s->device->free_host(memory, NULL);
        s->device->leave(&scope);
    }
}

/* ---- whole tensors ------------------------------------------------------------------------------------------------- */

tutti_status tti_staging_pack(struct tti_group *g, void *compact, const DLTensor *tensor, void *after,
                              int64_t deadline_ns, tutti_error *error)
{
    struct tti_device_errand x;
    tutti_status status = tti_device_errand_begin(g->device, after, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    return tti_device_errand_end(&x, tti_device_pack(g->where, compact, tensor, x.stream, error), deadline_ns, error);
}

tutti_status tti_staging_unpack(struct tti_group *g, const DLTensor *tensor, const void *compact, void *after,
                                int64_t deadline_ns, tutti_error *error)
{
    struct tti_device_errand x;
    tutti_status status = tti_device_errand_begin(g->device, after, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    return tti_device_errand_end(&x, tti_device_unpack(g->where, tensor, compact, x.stream, error), deadline_ns, error);
}

tutti_status tti_staging_mark(struct tti_group *g, void *stream, void **event, tutti_error *error)
{
    const struct tti_device *d = g->where;
    struct tti_device_scope scope;
    tutti_status status = d->enter(g->device.device_id, &scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if ((status = d->event_create(event, error)) == TUTTI_OK &&
        (status = d->event_record(*event, stream, error)) != TUTTI_OK) {
        d->event_destroy(*event, NULL);
    }
    d->leave(&scope);
    return status;
}

void tti_staging_unmark(DLDevice device, void *event)
{
    const struct tti_device *d = tti_device_of(device.device_type);
    struct tti_device_scope scope;
    if (d->enter(device.device_id, &scope, NULL) == TUTTI_OK) {
        d->event_destroy(event, NULL);
        d->leave(&scope);
    }
}
