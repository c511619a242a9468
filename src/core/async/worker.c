/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread sleeps on the futex of its doorbell. It asks the scheduler for short slices, so that it runs soon after it
 * is notified, also on a busy core. All signals are blocked in it.
 */
#include "core/async/worker.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/host/sched_slice.h"
#include "base/process/thread.h"

void tti_worker_init(struct tti_worker *worker, void (*serve)(struct tti_worker *worker))
{
    worker->serve = serve;
    pthread_mutex_init(&worker->lock, NULL);
    atomic_init(&worker->started, 0);
    atomic_init(&worker->doorbell, 0);
    atomic_init(&worker->asleep, 0);
    atomic_init(&worker->stop, 0);
}

static void *run(void *argument)
{
    struct tti_worker *w = argument;
    tti_request_short_slices();
    for (;;) {
        /* acquire: pairs with tti_worker_notify; what the notifier did before is visible to serve */
        uint32_t seen = atomic_load_explicit(&w->doorbell, memory_order_acquire);
        w->serve(w);
        if (atomic_load_explicit(&w->stop, memory_order_acquire) &&
            atomic_load_explicit(&w->doorbell, memory_order_acquire) == seen) {
            return NULL;
        }
        atomic_store_explicit(&w->asleep, 1, memory_order_seq_cst);
        if (atomic_load_explicit(&w->doorbell, memory_order_seq_cst) == seen) {
            syscall(SYS_futex, &w->doorbell, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        }
        atomic_store_explicit(&w->asleep, 0, memory_order_relaxed); /* too late costs a notifier one needless wake */
    }
}

tutti_status tti_worker_start_slow(struct tti_worker *worker, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&worker->lock);
    if (!atomic_load_explicit(&worker->started, memory_order_relaxed)) {
        int code = tti_thread_create(&worker->thread, NULL, run, worker);
        if (code == 0) {
            /* release: pairs with the acquire in tti_worker_start */
            atomic_store_explicit(&worker->started, 1, memory_order_release);
        } else {
            status = tti_error_system(error, code, "no thread for asynchronous operations can be started");
        }
    }
    pthread_mutex_unlock(&worker->lock);
    return status;
}

void tti_worker_notify(struct tti_worker *worker)
{
    /* seq_cst, see the protocol */
    atomic_fetch_add_explicit(&worker->doorbell, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&worker->asleep, memory_order_seq_cst)) {
        syscall(SYS_futex, &worker->doorbell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

uint32_t tti_worker_doorbell(const struct tti_worker *worker)
{
    return atomic_load_explicit(&worker->doorbell, memory_order_acquire);
}

void tti_worker_stop(struct tti_worker *worker)
{
    if (atomic_load_explicit(&worker->started, memory_order_acquire)) {
        /* release: pairs with the acquire in run(); the doorbell makes the thread read it */
        atomic_store_explicit(&worker->stop, 1, memory_order_release);
        tti_worker_notify(worker);
        pthread_join(worker->thread, NULL);
    }
    pthread_mutex_destroy(&worker->lock);
}
