/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/error.h"
#include "base/fork.h"

#define ALIVE (UINT64_C(1) << 31)
#define USERS (ALIVE - 1)

static pthread_mutex_t creation_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t fork_epoch; /* relaxed: changes only in a child, before it has other threads */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&fork_epoch, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    tti_fork_protect(&creation_lock);
    pthread_atfork(NULL, NULL, count_fork);
}

uint32_t tti_fork_epoch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&fork_epoch, memory_order_relaxed);
}

static uint32_t index_of(const void *handle)
{
    return (uint32_t)((uintptr_t)handle >> 4) & (TTI_HANDLES - 1);
}

static uint64_t generation_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle >> 32;
}

static void *handle_of(const struct tti_handle_table *table, uint64_t generation, uint32_t index)
{
    return (void *)(uintptr_t)(generation << 32 | (uint64_t)index << 4 | table->kind);
}

tutti_status tti_handles_insert(struct tti_handle_table *table, void *object, void **handle, tutti_error *error)
{
    uint32_t epoch = tti_fork_epoch();
    pthread_mutex_lock(&creation_lock);
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
        /* release: pairs with the acquire in tti_handles_acquire */
        atomic_store_explicit(&slot->word, generation << 32 | ALIVE, memory_order_release);
        pthread_mutex_unlock(&creation_lock);
        return TUTTI_OK;
    }
    pthread_mutex_unlock(&creation_lock);
    return tti_error_set(error, TUTTI_NO_RESOURCE, "this process holds %u %s already; destroy some", TTI_HANDLES,
                         table->name);
}

void *tti_handles_acquire(struct tti_handle_table *table, const void *handle, tutti_status *why)
{
    if (!handle) {
        *why = TUTTI_INVALID_ARGUMENT;
        return NULL;
    }
    struct tti_handle_slot *slot = &table->slots[index_of(handle)];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    do {
        if (!(word & ALIVE) || word >> 32 != generation_of(handle) || ((uintptr_t)handle & 15) != table->kind) {
            *why = TUTTI_BAD_STATE;
            return NULL;
        }
        /* acquire: pairs with the release of tti_handles_insert */
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, word + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    if (slot->epoch != atomic_load_explicit(&fork_epoch, memory_order_relaxed)) {
        tti_handles_release(table, handle);
        *why = TUTTI_FORKED;
        return NULL;
    }
    return slot->object;
}

void tti_handles_retain(struct tti_handle_table *table, const void *handle)
{
    atomic_fetch_add_explicit(&table->slots[index_of(handle)].word, 1, memory_order_relaxed);
}

void tti_handles_release(struct tti_handle_table *table, const void *handle)
{
    /* release: pairs with the acquire in tti_handles_retire; whatever this user did comes before the end */
    atomic_fetch_sub_explicit(&table->slots[index_of(handle)].word, 1, memory_order_release);
}

tutti_status tti_handles_retire(struct tti_handle_table *table, const void *handle)
{
    uint64_t alone = generation_of(handle) << 32 | ALIVE | 1;
    uint64_t gone = generation_of(handle) << 32;
    return atomic_compare_exchange_strong_explicit(&table->slots[index_of(handle)].word, &alone, gone,
                                                   memory_order_acquire, memory_order_relaxed)
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
