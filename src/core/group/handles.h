/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles: an opaque pointer that the application holds is an index and a generation, never an address. The word of a
 * slot has the generation (32 bits), an alive bit, and the number of users (31 bits). So one compare-and-swap decides
 * whether a call may start, or a destroy may go ahead. A stale handle is noticed, never followed. One table for each
 * type of object.
 */
#ifndef TTI_CORE_GROUP_HANDLES_H
#define TTI_CORE_GROUP_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

#define TTI_HANDLES      8192u
#define TTI_HANDLE_ALIVE (UINT64_C(1) << 31)
#define TTI_HANDLE_ALONE (UINT64_C(1) << 30) /* more users than there are: a user that excludes the others */

struct tti_handle_slot {
    _Atomic uint64_t word;
    void *object;   /* valid while alive; written before the word becomes alive */
    uint32_t epoch; /* of the process that made it, see tti_fork_epoch     */
};

struct tti_handle_table {
    uint32_t next;
    uint32_t kind;    /* 1..15, in the low bits: a handle of another type is stale here */
    const char *name; /* of the type, in plural: "groups" */
    struct tti_handle_slot slots[TTI_HANDLES];
};

/* The kinds; work handles have a table of their own, see async/work/pool.c. */
enum {
    TTI_KIND_GROUP = 5,
    TTI_KIND_WORK = 6,
    TTI_KIND_QUEUE = 7,
    TTI_KIND_TOKEN = 8,
    TTI_KIND_EVENTS = 9,
    TTI_KIND_BUCKETER = 10,
    TTI_KIND_PERSISTENT = 11
};

/* NO_RESOURCE if the table is full. */
tutti_status tti_handles_insert(struct tti_handle_table *table, void *object, void **handle, tutti_error *error);

/* The same in two steps: the handle is stale until it is published. One that is not to be published is withdrawn. */
tutti_status tti_handles_reserve(struct tti_handle_table *table, void *object, void **handle, tutti_error *error);
void tti_handles_publish(struct tti_handle_table *table, const void *handle);
void tti_handles_withdraw(struct tti_handle_table *table, const void *handle);

/* relaxed: changes only in a child, before it has other threads; see tti_fork_epoch */
extern _Atomic uint32_t tti_fork_count;

static inline struct tti_handle_slot *tti_handle_slot_of(struct tti_handle_table *table, const void *handle)
{
    return &table->slots[((uintptr_t)handle >> 4) & (TTI_HANDLES - 1)];
}

/* One more user; the caller is a user already. */
static inline void tti_handles_retain(struct tti_handle_table *table, const void *handle)
{
    atomic_fetch_add_explicit(&tti_handle_slot_of(table, handle)->word, 1, memory_order_relaxed);
}

static inline void tti_handles_release(struct tti_handle_table *table, const void *handle)
{
    /* release: pairs with the acquire in tti_handles_retire; what this user did comes before the end */
    atomic_fetch_sub_explicit(&tti_handle_slot_of(table, handle)->word, 1, memory_order_release);
}

/* How many users there are at this moment. */
static inline uint32_t tti_handles_users(struct tti_handle_table *table, const void *handle)
{
    /* acquire: pairs with the release in tti_handles_release; what past users did is visible */
    return (uint32_t)(atomic_load_explicit(&tti_handle_slot_of(table, handle)->word, memory_order_acquire) &
                      (TTI_HANDLE_ALIVE - 1));
}

/* The slot of a handle, for a caller that acquires the same handle again and again. */
struct tti_cached_handle {
    struct tti_handle_slot *slot;
    uint64_t generation; /* of the word, with the alive bit: all but the users */
};

static inline struct tti_cached_handle tti_handles_cache(struct tti_handle_table *table, const void *handle)
{
    return (struct tti_cached_handle){.slot = tti_handle_slot_of(table, handle),
                                      .generation =
                                          ((uint64_t)(uintptr_t)handle & ~UINT64_C(0xffffffff)) | TTI_HANDLE_ALIVE};
}

static inline bool tti_cached_handle_matches(const struct tti_cached_handle *known, uint64_t word)
{
    return (word & ~(TTI_HANDLE_ALIVE - 1)) == known->generation;
}

static inline void tti_cached_handle_release(const struct tti_cached_handle *known)
{
    /* release: as in tti_handles_release */
    atomic_fetch_sub_explicit(&known->slot->word, 1, memory_order_release);
}

/* Counts so many users more; false: the handle is stale. For a caller whose process made the handle. */
static inline bool tti_cached_handle_retain_for(const struct tti_cached_handle *known, uint32_t users)
{
    struct tti_handle_slot *slot = known->slot;
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    do {
        if (!tti_cached_handle_matches(known, word)) {
            return false;
        }
        /* acquire: pairs with the release of tti_handles_publish */
    } while (!atomic_compare_exchange_weak_explicit(&slot->word, &word, word + users, memory_order_acquire,
                                                    memory_order_relaxed));
    return true;
}

/* Counts the caller as a user. */
static inline bool tti_cached_handle_retain(const struct tti_cached_handle *known)
{
    return tti_cached_handle_retain_for(known, 1);
}

/* Counts the caller as a user that excludes others, if all others look at tti_handles_excluded; false: the handle is
 * stale, or has a user. For a caller that checks the epoch. */
static inline bool tti_cached_handle_retain_alone(const struct tti_cached_handle *known)
{
    uint64_t unused = known->generation;
    /* acquire: pairs with the release of tti_handles_publish, and with that of earlier users */
    return atomic_compare_exchange_strong_explicit(&known->slot->word, &unused, unused + TTI_HANDLE_ALONE,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Whether another user excludes the caller, which has acquired the handle and now has to release it. */
static inline bool tti_handles_excluded(struct tti_handle_table *table, const void *handle)
{
    return (tti_handles_users(table, handle) & TTI_HANDLE_ALONE) != 0;
}

/* The object, with the caller counted as its user; NULL: tti_handles_acquire finds out why. */
static inline void *tti_cached_handle_acquire(const struct tti_cached_handle *known)
{
    const struct tti_handle_slot *slot = known->slot;
    if (!tti_cached_handle_retain(known)) {
        return NULL;
    }
    if (slot->epoch != atomic_load_explicit(&tti_fork_count, memory_order_relaxed)) {
        tti_cached_handle_release(known);
        return NULL;
    }
    return slot->object;
}

/* The object, with the caller counted as its user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. */
static inline void *tti_handles_acquire(struct tti_handle_table *table, const void *handle, tutti_status *why)
{
    const struct tti_cached_handle known = tti_handles_cache(table, handle);
    if (__builtin_expect(((uintptr_t)handle & 15) != table->kind, 0)) {
        *why = handle ? TUTTI_BAD_STATE : TUTTI_INVALID_ARGUMENT;
        return NULL;
    }
    void *object = tti_cached_handle_acquire(&known);
    if (__builtin_expect(!object, 0)) { /* alive, so made before a fork; relaxed: the object is not used */
        *why = tti_cached_handle_matches(&known, atomic_load_explicit(&known.slot->word, memory_order_relaxed))
                   ? TUTTI_FORKED
                   : TUTTI_BAD_STATE;
    }
    return object;
}

/* Writes why a handle has no object, and returns the status, which the acquiring function has given. `noun` names the
 * object in the sentence. The kind decides whether it is destroyed or released, and what a forked child is told. */
tutti_status tti_handle_error(tutti_error *error, tutti_status status, const char *function, const char *noun,
                              uint32_t kind);

/* Makes the handle stale if the caller is its only user: then no other thread has the object. Else BUSY. */
tutti_status tti_handles_retire(struct tti_handle_table *table, const void *handle);

/* Calls visit for every live handle; it may retire it. */
void tti_handles_each(struct tti_handle_table *table, void (*visit)(void *handle, void *user), void *user);

/* Changes in each forked child: handles made before it are FORKED. */
uint32_t tti_fork_epoch(void);

#endif
