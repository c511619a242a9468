/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all_gather of 8 bytes beside the lanes of a group, for a split: it has no order with the group's operations. Each
 * rank has a ring of entries on its header page. A rank that publishes split n + 1 has read all entries of split n. So
 * an entry may be overwritten TTI_SPLITS splits later. After failed splits a rank may still want an overwritten entry:
 * it finds another number, and waits.
 *
 * A rank may read all entries while another one gives up. So a word in the doorbell decides whether the split is
 * complete or has failed: the first compare-and-swap wins. The word is about the latest split on which a rank has
 * decided.
 *
 * Cost: one hop for each rank, and one for the decision.
 */
#include "backends/shm/split_ring.h"

#include "backends/shm/await.h"
#include "engine/lane.h"

static struct tti_split *entry_of(const struct tti_shm_group *s, int32_t rank, uint32_t serial)
{
    return (struct tti_split *)(s->bases[rank] + TTI_SPLIT_OFFSET) + serial % TTI_SPLITS;
}

void tti_shm_split_put(void *state, uint32_t serial, int32_t color, int32_t key)
{
    struct tti_shm_group *s = state;
    struct tti_split *e = entry_of(s, s->rank, serial);
    atomic_store_explicit(&e->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* a rank that reads the new entry finds no old number after it */
    atomic_store_explicit(&e->entry, (uint64_t)(uint32_t)color << 32 | (uint32_t)key, memory_order_relaxed);
    /* release: pairs with the acquire in tti_shm_split_find */
    atomic_store_explicit(&e->number, (uint64_t)serial + 1, memory_order_release);
    tti_shm_notify(s->root);
}

bool tti_shm_split_find(void *state, int32_t rank, uint32_t serial, int32_t *color, int32_t *key)
{
    struct tti_split *e = entry_of(state, rank, serial);
    if (atomic_load_explicit(&e->number, memory_order_acquire) != (uint64_t)serial + 1) {
        return false;
    }
    const uint64_t entry = atomic_load_explicit(&e->entry, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire); /* pairs with the fence in tti_shm_split_put */
    *color = (int32_t)(uint32_t)(entry >> 32);
    *key = (int32_t)(uint32_t)entry;
    return atomic_load_explicit(&e->number, memory_order_relaxed) == (uint64_t)serial + 1;
}

struct awaited {
    void *state;
    int32_t rank;
    uint32_t serial;
    int32_t color;
    int32_t key;
    bool found;
};

static bool is_over(void *user)
{
    struct awaited *a = user;
    a->found = tti_shm_split_find(a->state, a->rank, a->serial, &a->color, &a->key);
    return a->found;
}

bool tti_shm_split_await(void *state, int32_t rank, uint32_t serial, int32_t *color, int32_t *key, int64_t until_ns)
{
    const struct tti_shm_group *s = state;
    struct awaited a = {.state = state, .rank = rank, .serial = serial};
    tti_shm_await(s->root, tti_shm_root_rank(s, rank), s->common.engine, is_over, &a, until_ns);
    *color = a.color;
    *key = a.key;
    return a.found;
}

enum tti_split_decision tti_shm_split_decide(void *state, uint32_t serial, bool complete)
{
    const struct tti_shm_group *s = state;
    _Atomic uint64_t *word = (_Atomic uint64_t *)(s->common.engine->doorbell + TTI_SPLIT_DECISION_OFFSET);
    const uint64_t failed = ((uint64_t)serial + 1) << 1;
    const uint64_t own = failed | complete;
    uint64_t decided = atomic_load_explicit(word, memory_order_acquire);
    /* release: pairs with both acquires; a rank that reads "complete" finds all entries */
    while (decided < failed &&
           !atomic_compare_exchange_weak_explicit(word, &decided, own, memory_order_acq_rel, memory_order_acquire)) {
    }
    decided = decided < failed ? own : decided;
    return decided == failed         ? TTI_SPLIT_FAILED
           : decided == (failed | 1) ? TTI_SPLIT_COMPLETE
                                     : TTI_SPLIT_DECIDED_LATER;
}
