/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that serves when its doorbell is raised, and sleeps otherwise. Notifying a thread that is awake costs one
 * atomic operation; waking one that sleeps is a system call.
 *
 * Protocol (store buffering, so both sides are seq_cst): the notifier raises `doorbell`, then reads `asleep`; the
 * thread sets `asleep`, then reads `doorbell`. One of them sees the other.
 */
#ifndef TTI_CORE_ASYNC_WORKER_H
#define TTI_CORE_ASYNC_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <tutti/status.h>

struct tti_worker {
    void (*serve)(struct tti_worker *worker); /* called at least once after each notification */
    pthread_t thread;
    pthread_mutex_t lock;      /* starting */
    _Atomic uint32_t started;  /* 1 once the thread exists: release, acquire */
    _Atomic uint32_t doorbell; /* the count of notifications */
    _Atomic uint32_t asleep;
    _Atomic uint32_t stop;
};

void tti_worker_init(struct tti_worker *worker, void (*serve)(struct tti_worker *worker));

tutti_status tti_worker_start_slow(struct tti_worker *worker, tutti_error *error);

/* Starts the thread, if that has not happened yet. NO_RESOURCE if it cannot be. */
static inline tutti_status tti_worker_start(struct tti_worker *worker, tutti_error *error)
{
    if (__builtin_expect(atomic_load_explicit(&worker->started, memory_order_acquire) != 0, 1)) {
        return TUTTI_OK;
    }
    return tti_worker_start_slow(worker, error);
}

void tti_worker_notify(struct tti_worker *worker);

/* Ends the thread, if it was started, once it has served all notifications; not from the thread itself. */
void tti_worker_stop(struct tti_worker *worker);

#endif
