/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles: a tutti_group pointer is an index and a generation, never an address. A slot's word holds generation (32
 * bits), whether it is alive (1) and its users (31), so that one compare-and-swap decides whether a call may start and a
 * destroy may go ahead: a stale handle is noticed, never followed.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/fork.h"
#include "core/group.h"

#define SLOTS 4096u
#define ALIVE (UINT64_C(1) << 31)
#define USERS (ALIVE - 1)

struct slot {
    _Atomic uint64_t word;
    struct tti_group *group; /* valid while alive; written before the word says so */
};

static struct slot slots[SLOTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER; /* creation only */
static uint32_t next_slot;

static _Atomic uint32_t fork_epoch; /* relaxed: changes only in a child, before it has other threads */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&fork_epoch, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    tti_fork_protect(&slots_lock);
    pthread_atfork(NULL, NULL, count_fork);
}

uint32_t tti_fork_epoch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&fork_epoch, memory_order_relaxed);
}

static uint32_t index_of(const tutti_group *handle)
{
    return (uint32_t)((uintptr_t)handle >> 4) & (SLOTS - 1);
}

static uint64_t generation_of(const tutti_group *handle)
{
    return (uint64_t)(uintptr_t)handle >> 32;
}

tutti_status tti_handle_insert(struct tti_group *group, tutti_error *error)
{
    pthread_mutex_lock(&slots_lock);
    for (uint32_t tried = 0; tried < SLOTS; tried++) {
        uint32_t i = next_slot++ % SLOTS;
        uint64_t word = atomic_load_explicit(&slots[i].word, memory_order_acquire);
        if (word & (ALIVE | USERS)) {
            continue;
        }
        uint64_t generation = (word >> 32) + 1;
        generation = generation > 0x7fffffff ? 1 : generation;
        group->handle = (tutti_group *)(uintptr_t)(generation << 32 | (uint64_t)i << 4 | 5);
        slots[i].group = group;
        /* release: pairs with the acquire in tti_handle_acquire */
        atomic_store_explicit(&slots[i].word, generation << 32 | ALIVE, memory_order_release);
        pthread_mutex_unlock(&slots_lock);
        return TUTTI_OK;
    }
    pthread_mutex_unlock(&slots_lock);
    return tti_error_set(error, TUTTI_NO_RESOURCE, "this process holds %u groups already; destroy some", SLOTS);
}

struct tti_group *tti_handle_acquire(tutti_group *handle, tutti_status *why)
{
    if (!handle) {
        *why = TUTTI_INVALID_ARGUMENT;
        return NULL;
    }
    struct slot *slot = &slots[index_of(handle)];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    do {
        if (!(word & ALIVE) || word >> 32 != generation_of(handle) || ((uintptr_t)handle & 15) != 5) {
            *why = TUTTI_BAD_STATE;
            return NULL;
        }
        /* acquire: pairs with the release of tti_handle_insert */
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, word + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    struct tti_group *group = slot->group;
    if (group->fork_epoch != atomic_load_explicit(&fork_epoch, memory_order_relaxed)) {
        tti_handle_release(group);
        *why = TUTTI_FORKED;
        return NULL;
    }
    return group;
}

void tti_handle_release(struct tti_group *group)
{
    /* release: pairs with the acquire in tti_handle_retire; whatever this user did comes before the end */
    atomic_fetch_sub_explicit(&slots[index_of(group->handle)].word, 1, memory_order_release);
}

tutti_status tti_handle_retire(struct tti_group *group)
{
    uint64_t alone = generation_of(group->handle) << 32 | ALIVE | 1;
    uint64_t gone = generation_of(group->handle) << 32;
    return atomic_compare_exchange_strong_explicit(&slots[index_of(group->handle)].word, &alone, gone,
                                                   memory_order_acquire, memory_order_relaxed)
               ? TUTTI_OK
               : TUTTI_BUSY;
}

void tti_handle_each(void (*visit)(tutti_group *handle, void *user), void *user)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint64_t word = atomic_load_explicit(&slots[i].word, memory_order_acquire);
        if (word & ALIVE) {
            visit((tutti_group *)(uintptr_t)(word >> 32 << 32 | (uint64_t)i << 4 | 5), user);
        }
    }
}
