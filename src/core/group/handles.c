/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Insertion takes a lock and searches for a free slot from where the last search ended. Acquiring and releasing take no
 * lock (handles.h). A slot is used again with the next generation, so a stale handle matches again only after 2^31 uses
 * of its slot.
 */
#include "core/group/handles.h"

#include <pthread.h>

#include "base/error.h"
#include "base/process/fork.h"

#define ALIVE TTI_HANDLE_ALIVE
#define USERS (ALIVE - 1)

static struct tti_fork_mutex creation_lock = TTI_FORK_MUTEX_INIT;
_Atomic uint32_t tti_fork_count;

static void count_fork(void)
{
    atomic_fetch_add_explicit(&tti_fork_count, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

uint32_t tti_fork_epoch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&tti_fork_count, memory_order_relaxed);
}

static uint64_t generation_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle >> 32;
}

static void *handle_of(const struct tti_handle_table *table, uint64_t generation, uint32_t index)
{
    return (void *)(uintptr_t)(generation << 32 | (uint64_t)index << 4 | table->kind);
}

tutti_status tti_handles_reserve(struct tti_handle_table *table, void *object, void **handle, tutti_error *error)
{
    uint32_t epoch = tti_fork_epoch();
    tti_fork_mutex_lock(&creation_lock);
    for (uint32_t tried = 0; tried < TTI_HANDLES; tried++) {
        uint32_t i = table->next++ % TTI_HANDLES;
        struct tti_handle_slot *slot = &table->slots[i];
        uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
        if (word & (ALIVE | USERS)) {
            continue;
        }
        uint64_t generation = (word >> 32) + 1;
        generation = generation > 0x7fffffff ? 1 : generation;
        slot->object = object;
        slot->epoch = epoch;
        *handle = handle_of(table, generation, i);
        /* One user and not alive: no other object gets the slot, and the handle is stale. relaxed: under the lock */
        atomic_store_explicit(&slot->word, generation << 32 | 1, memory_order_relaxed);
        tti_fork_mutex_unlock(&creation_lock);
        return TUTTI_OK;
    }
    tti_fork_mutex_unlock(&creation_lock);
    return tti_error_set(error, TUTTI_NO_RESOURCE, "this process holds %u %s already; destroy some", TTI_HANDLES,
                         table->name);
}

void tti_handles_publish(struct tti_handle_table *table, const void *handle)
{
    /* release: pairs with the acquire in tti_handles_acquire */
    atomic_store_explicit(&tti_handle_slot_of(table, handle)->word, generation_of(handle) << 32 | ALIVE,
                          memory_order_release);
}

void tti_handles_withdraw(struct tti_handle_table *table, const void *handle)
{
    /* release: pairs with the acquire in tti_handles_reserve, which gives the slot to another object */
    atomic_store_explicit(&tti_handle_slot_of(table, handle)->word, generation_of(handle) << 32, memory_order_release);
}

tutti_status tti_handles_insert(struct tti_handle_table *table, void *object, void **handle, tutti_error *error)
{
    const tutti_status status = tti_handles_reserve(table, object, handle, error);
    if (status == TUTTI_OK) {
        tti_handles_publish(table, *handle);
    }
    return status;
}

/* The application releases works and persistent operations, and destroys the other objects. */
tutti_status tti_handle_error(tutti_error *error, tutti_status status, const char *function, const char *noun,
                              uint32_t kind)
{
    const bool released = kind == TTI_KIND_WORK || kind == TTI_KIND_PERSISTENT;
    switch (status) {
    case TUTTI_INVALID_ARGUMENT:
        return tti_error_set(error, status, "%s: the %s is NULL", function, noun);
    case TUTTI_FORKED:
        return tti_error_set(error, status, "%s: the %s was made before fork(); %s", function, noun,
                             released                 ? "it belongs to the parent process"
                             : kind == TTI_KIND_GROUP ? "the child must call tutti_init itself"
                                                      : "the child must create its own");
    default:
        return tti_error_set(error, status, "%s: the %s has been %s already, or never was one", function, noun,
                             released ? "released" : "destroyed");
    }
}

tutti_status tti_handles_retire(struct tti_handle_table *table, const void *handle)
{
    uint64_t only_user = generation_of(handle) << 32 | ALIVE | 1;
    const uint64_t retired = generation_of(handle) << 32;
    /* acquire: what earlier users did with the object, which released the word; release: pairs with the acquire in
     * tti_handles_reserve, which gives the slot to another object */
    return atomic_compare_exchange_strong_explicit(&tti_handle_slot_of(table, handle)->word, &only_user, retired,
                                                   memory_order_acq_rel, memory_order_relaxed)
               ? TUTTI_OK
               : TUTTI_BUSY;
}

void tti_handles_each(struct tti_handle_table *table, void (*visit)(void *handle, void *user), void *user)
{
    for (uint32_t i = 0; i < TTI_HANDLES; i++) {
        uint64_t word = atomic_load_explicit(&table->slots[i].word, memory_order_acquire);
        if (word & ALIVE) {
            visit(handle_of(table, word >> 32, i), user);
        }
    }
}
