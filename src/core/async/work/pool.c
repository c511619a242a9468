/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool of works. Works are allocated in blocks and never freed, so a handle (index and generation) can always be
 * compared with the work at its index. When all works are in use, another block is allocated. The free works form a
 * lock-free stack (Treiber 1986). Its head carries a count of changes against the ABA problem, as in the IBM System/370
 * manual.
 */
#include "core/async/work/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/process/fork.h"
#include "core/group/handles.h"
#include "diag/flight.h"

#define BLOCK  32u
#define BLOCKS (TTI_WORKS / BLOCK)
#define ALIVE  (UINT64_C(1) << 31)
#define USERS  (ALIVE - 1)

static struct tti_work *_Atomic blocks[BLOCKS]; /* release when filled, acquire before use */
static struct tti_fork_mutex grow_lock = TTI_FORK_MUTEX_INIT;
static uint32_t block_count;        /* under the lock */
static _Atomic uint64_t free_works; /* changes 32 | index + 1 of the first free work, 0 = none */

static struct tti_work *at(uint32_t index)
{
    struct tti_work *block =
        index / BLOCK < BLOCKS ? atomic_load_explicit(&blocks[index / BLOCK], memory_order_acquire) : NULL;
    return block ? &block[index % BLOCK] : NULL;
}

static void give(struct tti_work *w)
{
    uint64_t head = atomic_load_explicit(&free_works, memory_order_relaxed);
    uint64_t next;
    do {
        atomic_store_explicit(&w->next_free, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | (w->index + 1);
        /* release: pairs with the acquire in take(); the work is as its last user left it */
    } while (
        !atomic_compare_exchange_weak_explicit(&free_works, &head, next, memory_order_release, memory_order_relaxed));
}

static struct tti_work *take(void)
{
    uint64_t head = atomic_load_explicit(&free_works, memory_order_acquire);
    while ((uint32_t)head != 0) {
        struct tti_work *w = at((uint32_t)head - 1);
        /* may be stale if another thread takes it now: then the count has changed and the exchange fails */
        uint64_t next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&w->next_free, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&free_works, &head, next, memory_order_acquire,
                                                  memory_order_acquire)) {
            return w;
        }
    }
    return NULL;
}

static struct tti_work *grow(tutti_status *why)
{
    struct tti_work *first = NULL;
    tti_fork_mutex_lock(&grow_lock);
    *why = block_count < BLOCKS ? TUTTI_NO_MEMORY : TUTTI_NO_RESOURCE;
    struct tti_work *block = block_count < BLOCKS ? calloc(BLOCK, sizeof(*block)) : NULL;
    if (block) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            block[i].index = block_count * BLOCK + i;
            block[i].descriptor = -1;
            pthread_mutex_init(&block[i].watch_lock, NULL);
            pthread_mutex_init(&block[i].post_lock, NULL);
        }
        atomic_store_explicit(&blocks[block_count], block, memory_order_release);
        block_count++;
        first = &block[0];
        for (uint32_t i = 1; i < BLOCK; i++) {
            give(&block[i]);
        }
    }
    tti_fork_mutex_unlock(&grow_lock);
    return first;
}

tutti_work *tti_work_handle(const struct tti_work *w)
{
    uint64_t generation = atomic_load_explicit(&w->word, memory_order_relaxed) >> 32;
    return (tutti_work *)(uintptr_t)(generation << 32 | (uint64_t)w->index << 4 | TTI_KIND_WORK);
}

struct tti_work *tti_work_make(tutti_status *why)
{
    struct tti_work *w = take();
    if (!w && !(w = grow(why))) {
        return NULL;
    }
    uint64_t generation = (atomic_load_explicit(&w->word, memory_order_relaxed) >> 32) + 1;
    generation = generation > 0x7fffffff ? 1 : generation;
    w->epoch = tti_fork_epoch();
    w->worker_only = false;
    w->runner = NULL;
    w->has_result = false;
    w->is_kept = false;
    w->is_owned = false;
    w->watches = NULL;
    w->first = NULL;
    w->batch = NULL;
    w->posted = NULL;
    w->is_posted = false;
    w->was_posted = false;
    w->is_prevented = false;
    w->task.side_count = 0;
    w->lane_waiter.work = w;
    atomic_store_explicit(&w->state, TTI_STAGE_MADE, memory_order_relaxed);
    /* release: pairs with the acquire in tti_work_acquire. Two users: the handle and the operation. */
    atomic_store_explicit(&w->word, generation << 32 | ALIVE | 2, memory_order_release);
    return w;
}

/* `released`: the handle may have been given back, if the work has another user. */
static struct tti_work *acquire(tutti_work *handle, bool released, tutti_status *why)
{
    const uint64_t needed = released ? ALIVE | USERS : ALIVE;
    if (!handle) {
        *why = TUTTI_INVALID_ARGUMENT;
        return NULL;
    }
    uintptr_t value = (uintptr_t)handle;
    struct tti_work *w = at((uint32_t)value >> 4);
    uint64_t word = w ? atomic_load_explicit(&w->word, memory_order_relaxed) : 0;
    do {
        if (!(word & needed) || word >> 32 != (uint64_t)value >> 32 || (value & 15) != TTI_KIND_WORK) {
            *why = TUTTI_BAD_STATE;
            return NULL;
        }
        /* acquire: pairs with the release in tti_work_make */
    } while (
        !atomic_compare_exchange_weak_explicit(&w->word, &word, word + 1, memory_order_acquire, memory_order_relaxed));
    if (w->epoch != tti_fork_epoch()) {
        tti_work_drop(w);
        *why = TUTTI_FORKED;
        return NULL;
    }
    return w;
}

struct tti_work *tti_work_acquire(tutti_work *handle, tutti_status *why)
{
    return acquire(handle, false, why);
}

struct tti_work *tti_work_acquire_user_work(tutti_work *handle, tutti_status *why)
{
    struct tti_work *w = acquire(handle, true, why);
    if (w && !(!w->runner && tti_stage(atomic_load_explicit(&w->state, memory_order_acquire)) == TTI_STAGE_QUEUED)) {
        tti_work_drop(w);
        *why = TUTTI_BAD_STATE;
        return NULL;
    }
    return w;
}

static void close_descriptor(struct tti_work *w)
{
    if (w->descriptor >= 0) {
        close(w->descriptor);
        w->descriptor = -1;
    }
}

void tti_work_drop(struct tti_work *w)
{
    /* release: what this user did comes before the next use; acquire: the last user sees what all others did */
    uint64_t before = atomic_fetch_sub_explicit(&w->word, 1, memory_order_acq_rel);
    if ((before & (ALIVE | USERS)) == 1) {
        close_descriptor(w);
        if (w->tally) {
            tti_flight_tally_give(w->tally);
            w->tally = NULL;
        }
        atomic_store_explicit(&w->state, TTI_STAGE_FREE, memory_order_relaxed);
        give(w);
    }
}

bool tti_work_retire(struct tti_work *w)
{
    /* relaxed: what the handle's owner did is ordered by the drop below, and by the caller's own */
    uint64_t before = atomic_fetch_and_explicit(&w->word, ~ALIVE, memory_order_relaxed);
    if (!(before & ALIVE)) {
        return false;
    }
    tti_work_drop(w); /* the handle's user; the caller is another one */
    return true;
}

uint32_t tti_work_pending(const tutti_group *group, uint32_t *of_application)
{
    uint32_t pending = 0;
    struct tti_work *w = NULL;
    *of_application = 0;
    for (uint32_t i = 0; (w = at(i)); i++) {
        /* relaxed: a snapshot of works that come and go, and nothing else of them is read */
        const uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
        const uint32_t stage = tti_stage(state);
        const bool pends = stage >= TTI_STAGE_QUEUED && stage < TTI_STAGE_ENDED && tti_work_group_handle(w) == group;
        pending += pends;
        *of_application += pends && (state & TTI_FLAG_APPLICATION);
    }
    return pending;
}

void tti_work_unmake(struct tti_work *w)
{
    tti_work_retire(w);
    tti_work_drop(w);
}
