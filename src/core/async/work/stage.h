/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a work: claiming it, giving it back, ending it; and the watches of its end. See state.h. */
#ifndef TTI_CORE_ASYNC_WORK_STAGE_H
#define TTI_CORE_ASYNC_WORK_STAGE_H

#include "core/async/work/state.h"

/* Changes the stage and keeps the flags; false if the stage is not `from`, or if a flag of `unless` is set. */
static inline bool tti_work_change_stage(struct tti_work *w, uint32_t from, uint32_t to, uint32_t unless)
{
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    do {
        if (tti_stage(state) != from || (state & unless)) {
            return false;
        }
        /* acq_rel: the thread that claims the work sees what its last owner did to it */
    } while (!atomic_compare_exchange_weak_explicit(&w->state, &state, (state & ~(uint32_t)TTI_STAGE_MASK) | to,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

/* From RUNNING back to a stage in which it can be claimed; returns the state as it was. */
uint32_t tti_work_give_back(struct tti_work *w, uint32_t stage);

/* True if the work will be cancelled when the lane reaches it; false if it has begun. */
bool tti_work_mark_cancelled(struct tti_work *w);

/* Ends a work: error, callback, events, token. The first half may need the lane, the second must not hold it. */
void tti_work_conclude_slow(struct tti_work *w, tutti_status status);

static inline void tti_work_conclude(struct tti_work *w, tutti_status status)
{
    if (status == TUTTI_OK && w->is_kept && !w->worker_only) { /* nothing to release, and no reader of the error */
        w->status = TUTTI_OK;
    } else {
        tti_work_conclude_slow(w, status);
    }
}

void tti_work_publish(struct tti_work *w);

/* tutti_work_complete: OK, or BAD_STATE if the work is complete already, or is not the application's to complete. */
tutti_status tti_work_complete(struct tti_work *w, tutti_status status, const char *message);

/* Whether functions of the application are called at its end. */
bool tti_work_has_callbacks(const struct tti_work *w);

/* Whether this thread, which is not a worker, may run the work. A thread inside a callback runs no other callback. */
bool tti_work_may_run(const struct tti_work *w);

/* Whether it has ended, as far as this thread may know: inside the callback of its own end, yes. */
static inline bool tti_work_ended(const struct tti_work *w)
{
    /* acquire: pairs with the release in tti_work_publish; status and error are there */
    const uint32_t stage = tti_stage(atomic_load_explicit(&w->state, memory_order_acquire));
    return stage == TTI_STAGE_ENDED || (stage == TTI_STAGE_FINISHED && tti_in_callback_of(w));
}

/* Whether it has ended for every thread, so that a kept work may be started again. */
static inline bool tti_work_published(const struct tti_work *w)
{
    /* acquire: pairs with the release in tti_work_publish; the thread that ended it is done with it */
    return tti_stage(atomic_load_explicit(&w->state, memory_order_acquire)) == TTI_STAGE_ENDED;
}

/* Sleeps until the state differs from `seen` or until_ns. Without the SLEEPER flag in `seen` it only sets the flag and
 * returns: the caller then checks once more what it waits for. */
void tti_work_sleep(struct tti_work *w, uint32_t seen, int64_t until_ns);

/* Sleeps until the end; false at until_ns. */
bool tti_work_wait_asleep(struct tti_work *w, int64_t until_ns);

/* Notified once, after the end, on the thread that ended the work; must not block. */
struct tti_watch {
    struct tti_watch *next;
    void (*ended)(struct tti_watch *watch);
};

/* False: it has ended already, and the watch is not notified. */
bool tti_work_watch(struct tti_work *w, struct tti_watch *watch);

/* Afterwards the watch is not notified, and its function is not running. Not from inside `ended`. */
void tti_work_unwatch(struct tti_work *w, struct tti_watch *watch);

/* The eventfd, made at first use. The caller pushes the work, since its waiter sleeps on the descriptor. */
tutti_status tti_work_open_descriptor(struct tti_work *w, int *fd, tutti_error *error);

#endif
