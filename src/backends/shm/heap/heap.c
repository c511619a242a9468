/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing a heap. A heap (struct tti_heap_shared) is one set of mappings for all groups of a rank that
 * descend from one group, counted by references. A view is the heap as one of these groups sees it: it translates the
 * group's ranks into members of the heap. The last view that closes ends the regions.
 */
#include "backends/shm/heap/heap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/shm/heap/ranges.h"
#include "backends/shm/heap/register.h"
#include "backends/shm/heap/shared.h"
#include "backends/shm/heap/state.h"
#include "base/error.h"
#include "base/file_limit.h"

#define ADDRESS_SPACE (UINT64_C(1) << 46) /* for the arenas of all members together; a process has 2^47 */

static size_t capacity_of(const tutti_open_info *info, int members)
{
    const char *text = info->setting(info->settings, "engine.heap_capacity");
    uint64_t capacity = text ? strtoull(text, NULL, 10) : 0;
    if (capacity == 0) {
        capacity = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    uint64_t most = TTI_HEAP_MAX_BYTES;
    most = ADDRESS_SPACE / (uint64_t)members < most ? ADDRESS_SPACE / (uint64_t)members : most;
    most = tti_file_limit() < most ? tti_file_limit() : most;
    capacity = capacity < most ? capacity : most;
    capacity = capacity / TTI_ARENA_HUGE * TTI_ARENA_HUGE;
    return capacity < TTI_ARENA_HUGE ? TTI_ARENA_HUGE : (size_t)capacity;
}

static void shared_free(struct tti_heap_shared *h)
{
    for (unsigned i = 0; i < TTI_HEAP_REGIONS; i++) {
        free(h->regions[i].mapped);
    }
    if (h->maps >= 0) {
        close(h->maps);
    }
    tti_arena_destroy(h->arena);
    pthread_mutex_destroy(&h->lock);
    free(h->table);
    free(h->globals);
    free(h);
}

static struct tti_heap_shared *shared_create(const tutti_open_info *info)
{
    struct tti_heap_shared *h = calloc(1, sizeof(*h));
    if (!h) {
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    h->references = 1;
    h->members = info->world_size;
    h->own = info->rank;
    h->capacity = capacity_of(info, h->members);
    h->maps = -1;
    h->regions_end = TTI_HEAP_ARENA + 1;
    atomic_init(&h->withdrawals, 1);
    h->table = calloc((size_t)h->members, sizeof(*h->table));
    h->globals = calloc((size_t)h->members, sizeof(*h->globals));
    if (!h->table || !h->globals) {
        shared_free(h);
        return NULL;
    }
    memcpy(h->globals, info->global_ranks, (size_t)h->members * sizeof(*h->globals));
    for (unsigned i = 0; i < TTI_HEAP_REGIONS; i++) {
        h->regions[i].fd = -1;
    }
    return h;
}

/* The engine calls this in a call that has failed: the memory file keeps its pages, and this rank gets private ones. */
static void orphan(void *user, unsigned region, void *memory, size_t bytes)
{
    (void)user;
    (void)region;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)memory + page - 1) / page * page;
    uintptr_t last = ((uintptr_t)memory + bytes) / page * page;
    if (first < last) {
        (void)mmap((void *)first, last - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
}

static bool still_mapped(void *user, unsigned region, const void *memory, size_t bytes)
{
    const struct tti_heap_shared *h = user;
    return tti_heap_still_mapped(h->maps, &h->regions[region], memory, bytes);
}

static tutti_status view_fill(struct tti_heap_view *v, const tutti_open_info *info)
{
    struct tti_heap_shared *h = v->shared;
    v->rank = info->rank;
    v->size = info->world_size;
    snprintf(v->directory, sizeof(v->directory), "%s", info->socket_directory ? info->socket_directory : "");
    v->member_of = calloc((size_t)v->size, sizeof(*v->member_of));
    v->table.members = calloc((size_t)v->size, sizeof(struct tti_heap_member *));
    if (!v->member_of || !v->table.members) {
        return TUTTI_NO_MEMORY;
    }
    for (int r = 0; r < v->size; r++) {
        int m = 0;
        while (m < h->members && h->globals[m] != info->global_ranks[r]) {
            m++;
        }
        if (m == h->members) {
            return TUTTI_INTERNAL;
        }
        v->member_of[r] = m;
        v->table.members[r] = &h->table[m];
    }
    v->table.ranks = v->size;
    v->table.withdrawals = &h->withdrawals;
    v->table.orphans = &h->orphans;
    v->table.user = h;
    v->table.still_mapped = still_mapped;
    v->table.orphan = orphan;
    return TUTTI_OK;
}

tutti_status tti_heap_view_open(const tutti_open_info *info, struct tti_heap_view *parent, struct tti_heap_view **view,
                                tutti_error *error)
{
    struct tti_heap_view *v = calloc(1, sizeof(*v));
    struct tti_heap_shared *h = parent ? parent->shared : shared_create(info);
    if (!v || !h) {
        free(v);
        if (h && !parent) {
            shared_free(h);
        }
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the heap of a group of %d processes",
                             info->world_size);
    }
    v->shared = h;
    pthread_mutex_lock(&h->lock);
    h->references += parent != NULL;
    pthread_mutex_unlock(&h->lock);
    tutti_status status = view_fill(v, info);
    if (status != TUTTI_OK) {
        tti_heap_view_close(v);
        return tti_error_set(error, status, "cannot share the heap of the parent group");
    }
    pthread_mutex_lock(&h->lock);
    v->next = h->views;
    v->link = &h->views;
    if (v->next) {
        v->next->link = &v->next;
    }
    h->views = v;
    tti_heap_publish_in(h, v);
    pthread_mutex_unlock(&h->lock);
    *view = v;
    return TUTTI_OK;
}

struct tti_heap *tti_heap_view_table(struct tti_heap_view *view)
{
    return &view->table;
}

void tti_heap_view_attach(struct tti_heap_view *view, const struct tti_heap_group_ops *group_ops)
{
    pthread_mutex_lock(&view->shared->lock);
    view->group_ops = group_ops ? *group_ops : (struct tti_heap_group_ops){.user = NULL};
    pthread_mutex_unlock(&view->shared->lock);
}

static void shared_close(struct tti_heap_shared *h)
{
    for (unsigned i = 0; i < TTI_HEAP_REGIONS; i++) {
        if (h->regions[i].taken && i != TTI_HEAP_ARENA) {
            tutti_error ignored;
            tti_heap_end_region(h, i, &ignored);
        }
        for (int m = 0; m < h->members; m++) {
            tti_heap_replace(h, m, i, 0);
        }
    }
    struct tti_heap_region *arena = &h->regions[TTI_HEAP_ARENA];
    if (arena->taken) {
        tti_heap_unclaim(arena);
        munmap(arena->base, arena->bytes);
        close(arena->fd);
    }
    shared_free(h);
}

void tti_heap_view_close(struct tti_heap_view *view)
{
    if (!view) {
        return;
    }
    struct tti_heap_shared *h = view->shared;
    pthread_mutex_lock(&h->lock);
    if (view->link) {
        *view->link = view->next;
        if (view->next) {
            view->next->link = view->link;
        }
    }
    int left = --h->references;
    pthread_mutex_unlock(&h->lock);
    if (left == 0) {
        shared_close(h);
    }
    free(view->member_of);
    free(view->table.members);
    free(view);
}
