/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap: memory that is registered with every lane's communicator. The library's kernels and the network then use it
 * in place, without the library's own buffers. tutti_alloc returns memory of ncclMemAlloc, which is aligned and mapped
 * as registration needs; tutti_register registers memory of the program.
 *
 * A group made from another one shares its heap, and the memory lives until the last of them closes. A registration
 * belongs to the communicators of one group.
 */
#include "backends/nccl/memory.h"

#include <stdlib.h>

#include "backends/nccl/communicator/backoff.h"
#include "backends/nccl/communicator/communicator.h"
#include "backends/nccl/failure.h"
#include "base/error.h"

struct block {
    struct block *next;
    unsigned char *memory;
    size_t bytes;
    bool allocated;               /* by ncclMemAlloc; else memory of the program */
    struct tti_nccl_group *group; /* with whose communicators it is registered; NULL after that group has closed */
    void *handles[TUTTI_MAX_LANES];
};

struct tti_nccl_heap {
    pthread_mutex_t lock;
    int32_t references;
    int32_t index; /* of the device */
    const struct tti_nccl_library *library;
    struct block *blocks; /* of this rank */
};

bool tti_nccl_has_heap(const struct tti_nccl_library *library)
{
    return library->MemAlloc && library->MemFree && library->CommRegister && library->CommDeregister;
}

struct tti_nccl_heap *tti_nccl_heap_open(struct tti_nccl_group *g, const tutti_open_info *info)
{
    const struct tti_nccl_group *parent = info->parent_state;
    if (parent && parent->heap->library == g->library && parent->heap->index == g->index) {
        pthread_mutex_lock(&parent->heap->lock);
        parent->heap->references++;
        pthread_mutex_unlock(&parent->heap->lock);
        return parent->heap;
    }
    struct tti_nccl_heap *heap = calloc(1, sizeof(*heap));
    if (heap) {
        pthread_mutex_init(&heap->lock, NULL);
        heap->references = 1;
        heap->index = g->index;
        heap->library = g->library;
    }
    return heap;
}

/* ---- registrations; under the heap's lock ------------------------------------------------------------------------ */

/* Acquires the lane's communicator while it launches nothing. */
static tti_nccl_comm acquire_idle(struct tti_nccl_group *g, struct tti_nccl_lane *lane, tutti_error *error)
{
    struct tti_nccl_backoff backoff = {.background = true};
    for (;;) {
        const tti_nccl_comm comm = tti_nccl_comm_acquire(g, lane, error);
        if (!comm || tti_nccl_comm_state(g->library, comm) != TTI_NCCL_IN_PROGRESS) {
            return comm;
        }
        tti_nccl_comm_release(lane);
        tti_nccl_backoff_step(&backoff);
    }
}

/* In a group that has failed, the end of the communicators has deregistered the block already. */
static void deregister_block(struct block *b)
{
    struct tti_nccl_group *g = b->group;
    b->group = NULL;
    for (int32_t i = 0; g && i < g->lanes; i++) {
        const tti_nccl_comm comm = b->handles[i] ? acquire_idle(g, &g->lane[i], NULL) : NULL;
        if (comm) {
            g->library->CommDeregister(comm, b->handles[i]);
            tti_nccl_comm_release(&g->lane[i]);
        }
        b->handles[i] = NULL;
    }
}

static tutti_status register_block(struct tti_nccl_group *g, struct block *b, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    b->group = g;
    for (int32_t i = 0; i < g->lanes && status == TUTTI_OK && b->bytes > 0; i++) {
        const tti_nccl_comm comm = acquire_idle(g, &g->lane[i], error);
        if (!comm) {
            status = TUTTI_REVOKED;
            break;
        }
        const int code = g->library->CommRegister(comm, b->memory, b->bytes, &b->handles[i]);
        if (code != TTI_NCCL_SUCCESS) {
            status = tti_nccl_error(g->library, comm, code, "CommRegister", error);
        }
        tti_nccl_comm_release(&g->lane[i]);
    }
    if (status != TUTTI_OK) {
        deregister_block(b);
    }
    return status;
}

static struct block *find(struct tti_nccl_heap *heap, const void *memory, bool allocated)
{
    struct block *b = heap->blocks;
    while (b && (b->memory != memory || b->allocated != allocated)) {
        b = b->next;
    }
    return b;
}

static void unlink_block(struct tti_nccl_heap *heap, const struct block *b)
{
    struct block **link = &heap->blocks;
    while (*link != b) {
        link = &(*link)->next;
    }
    *link = b->next;
}

/* A kernel that a failed group has left behind may still use the memory (device/late.c). */
static void free_memory(const void *owner, void *memory)
{
    const struct tti_nccl_library *library = owner;
    library->MemFree(memory);
}

static void release_memory(const struct tti_nccl_group *g, void *memory)
{
    tti_device_release_by(g->device, g->index, memory, free_memory, g->library);
}

/* ---- closing ----------------------------------------------------------------------------------------------------- */

void tti_nccl_heap_leave(struct tti_nccl_group *g)
{
    if (!g->heap) {
        return;
    }
    pthread_mutex_lock(&g->heap->lock);
    for (struct block *b = g->heap->blocks; b; b = b->next) {
        if (b->group == g) {
            deregister_block(b);
        }
    }
    pthread_mutex_unlock(&g->heap->lock);
}

void tti_nccl_heap_close(struct tti_nccl_group *g)
{
    struct tti_nccl_heap *heap = g->heap;
    if (!heap) {
        return;
    }
    pthread_mutex_lock(&heap->lock);
    const int32_t left = --heap->references;
    pthread_mutex_unlock(&heap->lock);
    if (left > 0) {
        return;
    }
    for (struct block *b = heap->blocks, *next; b; b = next) {
        next = b->next;
        if (b->allocated) {
            release_memory(g, b->memory);
        }
        free(b);
    }
    pthread_mutex_destroy(&heap->lock);
    free(heap);
}

/* ---- collective functions ---------------------------------------------------------------------------------------- */

/* Exchanges the status of every rank: OK if all succeeded, else the same error on every rank. */
static tutti_status agree(const struct tti_nccl_group *g, tutti_status own, const tutti_exchange *exchange,
                          const char *what, tutti_error *error)
{
    int32_t *all = calloc((size_t)g->size, sizeof(*all));
    if (!all && own == TUTTI_OK) {
        own = tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for the statuses of %d ranks", what, g->size);
    }
    int32_t mine = own;
    tutti_status status = exchange->gather(exchange->self, &mine, sizeof(mine), all, error);
    if (!all) { /* the other ranks have the own status */
        return status != TUTTI_OK ? status : own;
    }
    for (int32_t r = 0; r < g->size && status == TUTTI_OK; r++) {
        if (all[r] != TUTTI_OK) {
            status = all[r];
            if (r != g->rank || !error || error->status != status) {
                tti_error_set(error, status, "%s: rank %d failed: %s", what, r, tutti_status_string(status));
            }
            if (error) {
                error->suspect = r;
            }
        }
    }
    free(all);
    return status;
}

/* Adds memory to the heap and registers it; *added is NULL after an error. */
static tutti_status add(struct tti_nccl_group *g, void *memory, size_t bytes, bool allocated, struct block **added,
                        tutti_error *error)
{
    struct block *b = calloc(1, sizeof(*b));
    *added = NULL;
    if (!b) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory to register %zu bytes", bytes);
    }
    b->memory = memory;
    b->bytes = bytes;
    b->allocated = allocated;
    pthread_mutex_lock(&g->heap->lock);
    tutti_status status = TUTTI_OK;
    for (const struct block *o = g->heap->blocks; o && bytes > 0 && status == TUTTI_OK; o = o->next) {
        if (b->memory < o->memory + o->bytes && o->memory < b->memory + bytes) {
            status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                   "a part of the %zu bytes at %p is registered or allocated already", bytes, memory);
        }
    }
    if (status == TUTTI_OK && (status = register_block(g, b, error)) == TUTTI_OK) {
        b->next = g->heap->blocks;
        g->heap->blocks = b;
        *added = b;
    }
    pthread_mutex_unlock(&g->heap->lock);
    if (status != TUTTI_OK) {
        free(b);
    }
    return status;
}

static void drop(struct tti_nccl_heap *heap, struct block *b)
{
    pthread_mutex_lock(&heap->lock);
    deregister_block(b);
    unlink_block(heap, b);
    pthread_mutex_unlock(&heap->lock);
    free(b);
}

static tutti_status allocate(struct tti_nccl_group *g, size_t bytes, struct block **added, tutti_error *error)
{
    void *memory = NULL;
    const int code = g->library->MemAlloc(&memory, bytes);
    if (code != TTI_NCCL_SUCCESS || !memory) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "rank %d: ncclMemAlloc cannot allocate %zu bytes (code %d)",
                             g->rank, bytes, code);
    }
    const tutti_status status = add(g, memory, bytes, true, added, error);
    if (status != TUTTI_OK) {
        g->library->MemFree(memory);
    }
    return status;
}

tutti_status tti_nccl_alloc(void *state, size_t bytes, const tutti_exchange *exchange, void **memory,
                            tutti_error *error)
{
    struct tti_nccl_group *g = state;
    struct tti_device_scope scope;
    struct block *b = NULL;
    tutti_status status = g->device->enter(g->index, &scope, error);
    const bool entered = status == TUTTI_OK;
    if (entered && bytes > 0) {
        status = allocate(g, bytes, &b, error);
    }
    status = agree(g, status, exchange, "alloc", error);
    if (status != TUTTI_OK && b) {
        void *given = b->memory;
        drop(g->heap, b);
        release_memory(g, given);
    }
    if (entered) {
        g->device->leave(&scope);
    }
    if (status == TUTTI_OK) {
        *memory = b ? b->memory : NULL;
    }
    return status;
}

tutti_status tti_nccl_release(void *state, void *memory, tutti_error *error)
{
    struct tti_nccl_group *g = state;
    struct tti_device_scope scope;
    tutti_status status = g->device->enter(g->index, &scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&g->heap->lock);
    struct block *b = find(g->heap, memory, true);
    if (b) {
        deregister_block(b);
        unlink_block(g->heap, b);
    }
    pthread_mutex_unlock(&g->heap->lock);
    if (!b) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%p was not returned by tutti_alloc", memory);
    } else {
        release_memory(g, memory);
        free(b);
    }
    g->device->leave(&scope);
    return status;
}

tutti_status tti_nccl_register(void *state, void *memory, size_t bytes, const tutti_exchange *exchange,
                               tutti_error *error)
{
    struct tti_nccl_group *g = state;
    struct tti_device_scope scope;
    struct block *b = NULL;
    DLDevice place = {g->device->type, g->index};
    char text[24];
    tutti_status status = g->device->enter(g->index, &scope, error);
    const bool entered = status == TUTTI_OK;
    if (entered && bytes > 0) {
        status = g->device->lookup(memory, &place, error);
    }
    if (status == TUTTI_OK && (place.device_type != g->device->type || place.device_id != g->index)) {
        status = tti_error_set(error, TUTTI_DEVICE_MISMATCH, "the memory is on %s, but rank %d uses device %d",
                               tti_device_text(place, text), g->rank, g->index);
    }
    if (status == TUTTI_OK) {
        status = add(g, memory, bytes, false, &b, error);
    }
    status = agree(g, status, exchange, "register", error);
    if (status != TUTTI_OK && b) {
        drop(g->heap, b);
    }
    if (entered) {
        g->device->leave(&scope);
    }
    return status;
}

tutti_status tti_nccl_unregister(void *state, void *memory, const tutti_exchange *exchange, tutti_error *error)
{
    struct tti_nccl_group *g = state;
    struct tti_device_scope scope;
    pthread_mutex_lock(&g->heap->lock);
    struct block *b = find(g->heap, memory, false);
    pthread_mutex_unlock(&g->heap->lock);
    tutti_status status = TUTTI_OK;
    if (!b) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%p is not registered", memory);
    }
    status = agree(g, status, exchange, "unregister", error);
    /* If a rank refuses, nothing changes on any rank. After other errors this rank's registration ends all the same. */
    const bool refused = status == TUTTI_INVALID_ARGUMENT;
    if (b && !refused && g->device->enter(g->index, &scope, NULL) == TUTTI_OK) {
        drop(g->heap, b);
        g->device->leave(&scope);
    }
    return status;
}
