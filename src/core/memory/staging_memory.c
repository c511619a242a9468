/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for copies, tensors that are copied as a whole, and events on streams.
 *
 * A block stays allocated until the group ends, and is used again. Freeing it would wait for everything that runs on
 * the device: with a collective of NCCL under way, for the other ranks, which may wait for this thread. Sizes are
 * rounded so that blocks fit again: at most a third of a block is unused. If the tensors of a group grow from call to
 * call, its blocks add up to about three times the largest.
 */
#include "core/memory/staging_memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/kept_memory.h"
#include "core/group/group_state.h"

#define BLOCKS 8
#define LEAST  ((size_t)4096)

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* A free block that is large enough, the smallest of them. */
static struct tti_staging_block *find_block(struct tti_staging *s, size_t bytes, bool there)
{
    struct tti_staging_block *best = NULL;
    for (size_t i = 0; i < s->block_count; i++) {
        struct tti_staging_block *b = &s->blocks[i];
        if (!b->taken && b->there == there && b->bytes >= bytes && (!best || b->bytes < best->bytes)) {
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

/* Up to a power of two, or halfway between two. */
static size_t round_up(size_t bytes)
{
    size_t size = LEAST;
    while (size < bytes && size <= SIZE_MAX / 4) {
        size *= 2;
    }
    return size / 4 * 3 >= bytes && size > LEAST ? size / 4 * 3 : size < bytes ? bytes : size;
}

/* With the lock held. */
static tutti_status make_block(struct tti_staging *s, size_t bytes, bool there, struct tti_staging_block **block,
                               tutti_error *error)
{
    struct tti_device_scope scope;
    struct tti_staging_block *b = add_block(s);
    if (!b) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a list of %zu copies of tensors", s->block_count);
    }
    tutti_status status = s->device->enter(s->index, &scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    *b = (struct tti_staging_block){.bytes = round_up(bytes), .there = there};
    status = there ? s->device->alloc(b->bytes, &b->memory, error) : s->device->alloc_host(b->bytes, &b->memory, error);
    s->device->leave(&scope);
    s->block_count += status == TUTTI_OK;
    *block = b;
    return status;
}

tutti_status tti_staging_block_take(struct tti_staging *s, size_t bytes, bool there, void **memory, size_t *room,
                                    tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&s->lock);
    struct tti_staging_block *b = find_block(s, bytes, there);
    if (!b) {
        status = make_block(s, bytes, there, &b, error);
    }
    if (status == TUTTI_OK) {
        b->taken = true;
        *memory = b->memory;
        *room = b->bytes;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* With the lock held. The block in which `memory` lies, or NULL. */
static struct tti_staging_block *block_of(const struct tti_staging *s, const void *memory)
{
    const uintptr_t at = (uintptr_t)memory;
    for (size_t i = 0; i < s->block_count; i++) {
        const uintptr_t begin = (uintptr_t)s->blocks[i].memory;
        if (at >= begin && at - begin < s->blocks[i].bytes) {
            return &s->blocks[i];
        }
    }
    return NULL;
}

void tti_staging_block_give(struct tti_staging *s, const void *memory, enum tti_staging_until until)
{
    pthread_mutex_lock(&s->lock);
    struct tti_staging_block *b = block_of(s, memory);
    if (b) {
        b->until = until > b->until ? until : b->until;
        b->taken = b->until != TTI_UNTIL_GIVEN_BACK;
    }
    pthread_mutex_unlock(&s->lock);
}

void *tti_staging_take(struct tti_group *g, size_t bytes, bool there)
{
    void *memory = NULL;
    size_t room;
    return tti_staging_block_take(g->staging, bytes, there, &memory, &room, NULL) == TUTTI_OK ? memory : NULL;
}

void tti_staging_give(struct tti_group *g, const void *memory, int32_t in_use)
{
    if (memory) { /* else the group may have no staging */
        tti_staging_block_give(g->staging, memory, in_use ? TTI_UNTIL_PROCESS_ENDS : TTI_UNTIL_GIVEN_BACK);
    }
}

/* Inside the device's scope. */
void tti_staging_blocks_free(struct tti_staging *s)
{
    for (size_t i = 0; i < s->block_count; i++) {
        const struct tti_staging_block *b = &s->blocks[i];
        if (b->until == TTI_UNTIL_PROCESS_ENDS) {
            tti_memory_keep(b->memory);
        } else {
            tti_device_release(s->device, s->index, b->memory, !b->there);
        }
    }
}

/* ---- whole tensors ---------------------------------------------------------------------------------------------- */

static tutti_status end_copy(struct tti_group *g, struct tti_device_session *x, tutti_status status,
                             const void *compact, int64_t deadline_ns, tutti_error *error)
{
    status = tti_device_session_end(x, status, deadline_ns, error);
    if (!x->done) {
        tti_staging_block_give(g->staging, compact, TTI_UNTIL_GROUP_ENDS); /* the device may still copy */
    }
    return status;
}

tutti_status tti_staging_pack(struct tti_group *g, void *compact, const DLTensor *tensor, void *after,
                              int64_t deadline_ns, tutti_error *error)
{
    struct tti_device_session x;
    const tutti_status status = tti_device_session_begin(g->device, after, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    return end_copy(g, &x, tti_device_pack(g->device_ops, compact, tensor, x.stream, error), compact, deadline_ns,
                    error);
}

tutti_status tti_staging_unpack(struct tti_group *g, const DLTensor *tensor, const void *compact, void *after,
                                int64_t deadline_ns, tutti_error *error)
{
    struct tti_device_session x;
    const tutti_status status = tti_device_session_begin(g->device, after, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    return end_copy(g, &x, tti_device_unpack(g->device_ops, tensor, compact, x.stream, error), compact, deadline_ns,
                    error);
}

tutti_status tti_staging_mark(struct tti_group *g, void *stream, void **event, tutti_error *error)
{
    const struct tti_device *d = g->device_ops;
    struct tti_device_scope scope;
    tutti_status status = d->enter(g->device.device_id, &scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if ((status = d->event_create(event, error)) == TUTTI_OK &&
        (status = d->event_record(*event, stream, error)) != TUTTI_OK) {
        d->event_destroy(*event, NULL);
        *event = NULL; /* the caller destroys the one that it has */
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
