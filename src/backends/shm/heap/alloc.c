/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti_alloc: two rounds. In the first one each rank reports how many bytes it wants and whether it has mapped the
 * arenas of all ranks. Then each takes its block and fills it with pages. In the second round the ranks agree whether
 * all succeeded.
 */
#include "backends/shm/heap/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/shm/heap/agree.h"
#include "backends/shm/heap/file.h"
#include "backends/shm/heap/ranges.h"
#include "backends/shm/heap/shared.h"
#include "base/error.h"

#define POPULATE_MOST ((uint64_t)4 << 30) /* of the others' blocks in one call: page tables are memory, too */

static struct tti_heap_region *arena_of(struct tti_heap_shared *h)
{
    return &h->regions[TTI_HEAP_ARENA];
}

static tutti_status make_arena(struct tti_heap_shared *h, tutti_error *error)
{
    struct tti_heap_region region = {.taken = true, .fd = -1, .bytes = h->capacity};
    tutti_status status = tti_heap_file_create("tutti-heap", region.bytes, &region.fd, error);
    if (status == TUTTI_OK &&
        (status = tti_heap_file_map(region.fd, region.bytes, true, &region.base, error)) != TUTTI_OK) {
        close(region.fd);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    h->arena = tti_arena_create(region.bytes);
    region.mapped = calloc((size_t)h->members, sizeof(*region.mapped));
    struct tti_heap_region *arena = arena_of(h);
    *arena = region;
    if (!h->arena || !region.mapped || tti_heap_claim_file(arena, region.fd, error) != TUTTI_OK ||
        !tti_heap_claim(arena)) {
        tti_arena_destroy(h->arena);
        h->arena = NULL;
        free(region.mapped);
        munmap(region.base, region.bytes);
        close(region.fd);
        *arena = (struct tti_heap_region){.fd = -1};
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the heap");
    }
    tti_heap_claim_overlaid(arena);
    tti_heap_replace(h, h->own, TTI_HEAP_ARENA, tti_heap_word(region.base, region.bytes));
    return TUTTI_OK;
}

static tutti_status no_room(const struct tti_heap_shared *h, size_t bytes, tutti_error *error)
{
    return tti_error_set(error, TUTTI_NO_MEMORY,
                         "no room for %zu bytes in a heap of %zu; raise engine.heap_capacity, or free some", bytes,
                         h->capacity);
}

/* Under the lock. */
static bool is_mapped_here(const struct tti_heap_shared *h, int member)
{
    return atomic_load_explicit(&h->table[member].regions[TTI_HEAP_ARENA], memory_order_relaxed) != 0;
}

/* The own record of the first round. */
static tutti_status prepare(struct tti_heap_view *v, size_t bytes, struct tti_heap_record *mine, tutti_error *error)
{
    struct tti_heap_shared *h = v->shared;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&h->lock);
    if (!arena_of(h)->taken) {
        status = make_arena(h, error);
    }
    for (int r = 0; r < v->size && status == TUTTI_OK; r++) {
        int m = v->member_of[r];
        mine->incomplete |= !is_mapped_here(h, m) || (r != v->rank && !arena_of(h)->mapped[m]);
    }
    pthread_mutex_unlock(&h->lock);
    if (status == TUTTI_OK && bytes > h->capacity) {
        status = no_room(h, bytes, error);
    }
    if (status == TUTTI_OK && getrandom(mine->random, sizeof(mine->random), 0) != sizeof(mine->random)) {
        status = tti_error_system(error, errno, "no random name for the descriptor channel");
    }
    mine->memory.bytes = bytes;
    mine->region = TTI_HEAP_ARENA;
    return status;
}

static bool is_missing(const struct tti_heap_view *v, const struct tti_heap_record *all)
{
    bool missing = false;
    for (int r = 0; r < v->size; r++) {
        missing = missing || all[r].incomplete != 0;
    }
    return missing && v->size > 1;
}

/* Exchanges the arenas of all ranks. Arenas that are mapped here stay where they are: another thread may be in a call
 * that uses them. */
static tutti_status swap_arenas(struct tti_heap_view *v, const tutti_exchange *exchange,
                                const struct tti_heap_record *all, struct tti_store *channel, tutti_error *error)
{
    bool *wanted = malloc((size_t)v->size * sizeof(*wanted));
    if (!wanted) {
        tti_heap_put_no_fd(v, channel);
        return tti_heap_no_list(v, error);
    }
    pthread_mutex_lock(&v->shared->lock);
    for (int r = 0; r < v->size; r++) {
        wanted[r] = !is_mapped_here(v->shared, v->member_of[r]);
    }
    pthread_mutex_unlock(&v->shared->lock);
    const tutti_status status =
        tti_heap_exchange_fds(v, exchange, all, wanted, true, arena_of(v->shared)->fd, channel, error);
    free(wanted);
    return status;
}

/* The begin of the page. Small blocks share pages. */
static size_t page_down(size_t offset)
{
    return offset / TTI_ARENA_PAGE * TTI_ARENA_PAGE;
}

static void free_block(struct tti_heap_shared *h, size_t offset)
{
    pthread_mutex_lock(&h->lock);
    struct tti_heap_region *arena = arena_of(h);
    size_t bytes = tti_arena_bytes(h->arena, offset);
    unsigned char *memory = arena->base + offset;
    bool orphaned = tti_heap_is_orphan(&h->orphans, memory, bytes);
    if (bytes >= TTI_ARENA_HUGE || (orphaned && bytes >= TTI_ARENA_PAGE)) {
        tti_heap_file_discard(arena->fd, offset, bytes);
    }
    if (orphaned) {
        /* A rank that was stopped in the middle of a failed call may still write to the file here, so this part is
         * never reused. */
        if (bytes >= TTI_ARENA_PAGE) {
            (void)mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        }
        tti_heap_forget_orphans(&h->orphans, memory, bytes);
    }
    tti_heap_arena_free(h->arena, offset, !orphaned);
    pthread_mutex_unlock(&h->lock);
}

static tutti_status alloc_block(struct tti_heap_view *v, size_t bytes, uint64_t *offset, tutti_error *error)
{
    struct tti_heap_shared *h = v->shared;
    const struct tti_heap_group_ops group = tti_heap_group_ops_of(v);
    size_t at = 0;
    pthread_mutex_lock(&h->lock);
    tutti_status status = tti_heap_arena_alloc(h->arena, bytes, &at);
    pthread_mutex_unlock(&h->lock);
    if (status != TUTTI_OK) {
        return no_room(h, bytes, error);
    }
    size_t first = page_down(at);
    size_t last = page_down(at + bytes + TTI_ARENA_PAGE - 1);
    status = tti_heap_file_commit(arena_of(h)->fd, arena_of(h)->base, first, last - first, &group, error);
    if (status != TUTTI_OK) {
        free_block(h, at);
        return status;
    }
    *offset = at;
    return TUTTI_OK;
}

/* Maps the pages of the others' blocks now rather than in the first operation. */
static void populate(struct tti_heap_view *v, const struct tti_heap_record *all)
{
    const struct tti_heap_group_ops group = tti_heap_group_ops_of(v);
    uint64_t sum = 0;
    for (int r = 0; r < v->size; r++) {
        sum += r != v->rank ? all[r].memory.bytes : 0;
    }
    for (int r = 0; r < v->size && sum <= POPULATE_MOST; r++) {
        uint64_t name = (uint64_t)(TTI_HEAP_ARENA + 1) << 48 | (all[r].offset & ((UINT64_C(1) << 48) - 1));
        unsigned char *block =
            r != v->rank && all[r].memory.bytes > 0 ? tti_heap_address(&v->table, r, name, all[r].memory.bytes) : NULL;
        if (block) {
            tti_heap_file_populate(block, all[r].memory.bytes, &group);
        }
    }
}

/* `channel`: NULL if no rank misses an arena. */
static tutti_status map_and_take(struct tti_heap_view *v, size_t bytes, const tutti_exchange *exchange,
                                 const struct tti_heap_record *all, struct tti_store *channel, uint64_t *offset,
                                 tutti_error *error)
{
    tutti_status status = channel ? swap_arenas(v, exchange, all, channel, error) : TUTTI_OK;
    if (status == TUTTI_OK) {
        status = tti_heap_check_available(v, all, error);
    }
    return status == TUTTI_OK && bytes > 0 ? alloc_block(v, bytes, offset, error) : status;
}

static tutti_status rounds(struct tti_heap_view *v, size_t bytes, const tutti_exchange *exchange,
                           struct tti_heap_record *all, void **memory, tutti_error *error)
{
    struct tti_heap_shared *h = v->shared;
    struct tti_heap_record mine = {0};
    struct tti_store *channel = NULL;
    bool taken = false;
    mine.status = all ? prepare(v, bytes, &mine, error) : tti_heap_no_list(v, error);
    mine.memory.available = tti_available_memory_read("");
    tutti_status status = tti_heap_agree(v, exchange, "alloc", &mine, all, error);
    if (!all) {
        return status; /* never OK: see tti_heap_no_list */
    }
    if (status == TUTTI_OK && is_missing(v, all)) { /* the same decision on all ranks */
        status = tti_heap_open_fd_channel(v, exchange, "alloc", &mine, all, &channel, error);
    }
    if (status == TUTTI_OK) {
        mine.status = map_and_take(v, bytes, exchange, all, channel, &mine.offset, error);
        mine.origin = channel ? (uint8_t)tti_store_resource_origin(channel) : TTI_RESOURCE_OF_CALLER;
        taken = mine.status == TUTTI_OK && bytes > 0;
        status = tti_heap_agree(v, exchange, "alloc", &mine, all, error);
    }
    if (channel) {
        tti_store_release(channel);
    }
    if (status != TUTTI_OK) {
        if (taken) {
            free_block(h, mine.offset);
        }
        return status;
    }
    pthread_mutex_lock(&h->lock);
    tti_heap_mark_mapped(v, TTI_HEAP_ARENA);
    pthread_mutex_unlock(&h->lock);
    populate(v, all);
    *memory = bytes > 0 ? arena_of(h)->base + mine.offset : NULL;
    return TUTTI_OK;
}

tutti_status tti_heap_alloc(struct tti_heap_view *v, size_t bytes, const tutti_exchange *exchange, void **memory,
                            tutti_error *error)
{
    struct tti_heap_record *all = calloc((size_t)v->size, sizeof(*all));
    tutti_status status = rounds(v, bytes, exchange, all, memory, error);
    free(all);
    return status;
}

tutti_status tti_heap_release(struct tti_heap_view *v, void *memory, tutti_error *error)
{
    struct tti_heap_shared *h = v->shared;
    pthread_mutex_lock(&h->lock);
    struct tti_heap_region *arena = arena_of(h);
    size_t offset = (size_t)((unsigned char *)memory - arena->base);
    bool ours = arena->taken && offset < arena->bytes && tti_arena_bytes(h->arena, offset) > 0;
    pthread_mutex_unlock(&h->lock);
    if (!ours) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "free: %p is not memory that tutti_alloc has given",
                             memory);
    }
    free_block(h, offset);
    return TUTTI_OK;
}
