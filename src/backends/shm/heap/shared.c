/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank has mapped of the members' regions, and which own regions each group may name. A mapping that is replaced
 * stays until no message and no collective can still use it (engine/memory/heap.h): each later change tries to unmap
 * it.
 */
#include "backends/shm/heap/shared.h"

#include <stdlib.h>
#include <sys/mman.h>

static uint64_t mapped_word(const struct tti_heap_shared *h, int member, unsigned region)
{
    return atomic_load_explicit(&h->table[member].regions[region], memory_order_relaxed); /* written under the lock */
}

static bool quiesced(const struct tti_heap_shared *h, uint64_t withdrawal)
{
    bool settled = true;
    for (const struct tti_heap_view *v = h->views; v; v = v->next) {
        settled = (!v->group_ops.quiesced || v->group_ops.quiesced(v->group_ops.user, withdrawal)) && settled;
    }
    return settled;
}

static void unmap_retired(struct tti_heap_shared *h)
{
    struct tti_heap_retired **link = &h->retired_mappings;
    while (*link) {
        struct tti_heap_retired *retired_mapping = *link;
        if (quiesced(h, retired_mapping->withdrawal)) {
            munmap((void *)tti_heap_begin(retired_mapping->word), tti_heap_bytes(retired_mapping->word));
            *link = retired_mapping->next;
            free(retired_mapping);
        } else {
            link = &retired_mapping->next;
        }
    }
}

/* The peer chooses which of its regions it names: perhaps one that this rank is reading in another call. */
void tti_heap_replace(struct tti_heap_shared *h, int member, unsigned region, uint64_t word)
{
    /* seq_cst: pairs with tti_heap_address, and comes before the count in the one order, see engine/memory/heap.h */
    const uint64_t old = atomic_exchange_explicit(&h->table[member].regions[region], word, memory_order_seq_cst);
    if (old != 0 && member != h->own) {
        struct tti_heap_retired *retired_mapping = malloc(sizeof(*retired_mapping));
        const uint64_t before = atomic_fetch_add_explicit(&h->withdrawals, 1, memory_order_seq_cst);
        if (retired_mapping) { /* else it stays mapped, which is safe */
            *retired_mapping =
                (struct tti_heap_retired){.next = h->retired_mappings, .word = old, .withdrawal = before + 1};
            h->retired_mappings = retired_mapping;
        }
    }
    unmap_retired(h);
}

void tti_heap_publish_in(struct tti_heap_shared *h, struct tti_heap_view *v)
{
    for (unsigned i = 0; i < h->regions_end; i++) {
        const struct tti_heap_region *region = &h->regions[i];
        bool by_all = region->taken && region->fd >= 0 && region->mapped;
        for (int r = 0; r < v->size && by_all; r++) {
            by_all = region->mapped[v->member_of[r]];
        }
        tti_heap_own(&v->table, i, by_all ? mapped_word(h, h->own, i) : 0);
    }
}

void tti_heap_publish(struct tti_heap_shared *h)
{
    for (struct tti_heap_view *v = h->views; v; v = v->next) {
        tti_heap_publish_in(h, v);
    }
}

void tti_heap_mark_mapped(struct tti_heap_view *v, unsigned region)
{
    for (int r = 0; r < v->size; r++) {
        v->shared->regions[region].mapped[v->member_of[r]] = true;
    }
    tti_heap_publish(v->shared);
}

unsigned tti_heap_alloc_region(struct tti_heap_shared *h)
{
    for (unsigned i = TTI_HEAP_ARENA + 1; i < TTI_HEAP_REGIONS; i++) {
        struct tti_heap_region *region = &h->regions[i];
        if (!region->taken) {
            bool *mapped = calloc((size_t)h->members, sizeof(*mapped));
            if (mapped) {
                *region = (struct tti_heap_region){.taken = true, .fd = -1, .mapped = mapped};
                h->regions_end = i < h->regions_end ? h->regions_end : i + 1;
            }
            return mapped ? i : 0;
        }
    }
    return 0;
}

void tti_heap_free_region(struct tti_heap_shared *h, unsigned index)
{
    struct tti_heap_region *region = &h->regions[index];
    free(region->mapped);
    *region = (struct tti_heap_region){.fd = -1};
    tti_heap_replace(h, h->own, index, 0);
    tti_heap_publish(h);
}

struct tti_heap_group_ops tti_heap_group_ops_of(struct tti_heap_view *v)
{
    pthread_mutex_lock(&v->shared->lock);
    const struct tti_heap_group_ops group_ops = v->group_ops;
    pthread_mutex_unlock(&v->shared->lock);
    return group_ops;
}
