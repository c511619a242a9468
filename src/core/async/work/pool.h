/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a work: works come from a pool that never shrinks, so a stale handle can be compared but leads
 * nowhere. */
#ifndef TTI_CORE_ASYNC_WORK_POOL_H
#define TTI_CORE_ASYNC_WORK_POOL_H

#include <stdbool.h>

#include "core/async/work/state.h"

#define TTI_WORKS 65536u /* that a process can have at a time */

/* A fresh work with two users, its handle and the operation; or NULL and why: NO_MEMORY, NO_RESOURCE (TTI_WORKS). Stage
 * MADE. */
struct tti_work *tti_work_make(tutti_status *why);

/* Gives a work back that was never started. */
void tti_work_unmake(struct tti_work *w);

tutti_work *tti_work_handle(const struct tti_work *w);

/* The work, with the caller counted as a user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. */
struct tti_work *tti_work_acquire(tutti_work *handle, tutti_status *why);

/* The same of an application's work that has not been completed: also when its handle has been given back. */
struct tti_work *tti_work_acquire_user_work(tutti_work *handle, tutti_status *why);

/* One user more; the caller has it by its handle, which is alive. */
static inline void tti_work_retain(struct tti_work *w)
{
    atomic_fetch_add_explicit(&w->word, 1, memory_order_relaxed); /* the owner of the handle orders the uses */
}

/* One user less; the last one gives the work back to the pool. */
void tti_work_drop(struct tti_work *w);

/* Ends the life of the handle; false if it has ended before. The caller remains a user. */
bool tti_work_retire(struct tti_work *w);

/* How many operations of a group have been started and have not ended; of them, how many the application completes. A
 * snapshot. */
uint32_t tti_work_pending(const tutti_group *group, uint32_t *of_application);

#endif
