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
#include "base/wait/futex.h"

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
        /* acquire: pairs with tti_worker_stop. A notification before the stop is visible to the load of `doorbell`
         * then, and is served before the thread ends. */
        if (atomic_load_explicit(&w->stop, memory_order_acquire) &&
            atomic_load_explicit(&w->doorbell, memory_order_acquire) == seen) {
            return NULL;
        }
        /* seq_cst, store then load: pairs with tti_worker_notify, see the protocol in worker.h */
        atomic_store_explicit(&w->asleep, 1, memory_order_seq_cst);
        if (atomic_load_explicit(&w->doorbell, memory_order_seq_cst) == seen) {
            tti_futex_sleep(&w->doorbell, seen, TTI_NEVER);
        }
        /* relaxed: a notifier that still reads 1 makes one needless wake-up */
        atomic_store_explicit(&w->asleep, 0, memory_order_relaxed);
    }
}

tutti_status tti_worker_start_slow(struct tti_worker *worker, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&worker->lock);
    /* relaxed: `started` changes only under the lock */
    if (!atomic_load_explicit(&worker->started, memory_order_relaxed)) {
        int code = tti_thread_create(&worker->thread, NULL, run, worker);
        if (code == 0) {
            /* release: pairs with the acquire in tti_worker_start and in tti_worker_stop, which reads `thread` */
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
    /* seq_cst, store then load: pairs with `asleep` and `doorbell` in run(), see the protocol in worker.h. The
     * increment is a release as well, for the acquire loads of run(). */
    atomic_fetch_add_explicit(&worker->doorbell, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&worker->asleep, memory_order_seq_cst)) {
        syscall(SYS_futex, &worker->doorbell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

void tti_worker_stop(struct tti_worker *worker)
{
    /* acquire: pairs with tti_worker_start_slow, perhaps of another thread */
    if (atomic_load_explicit(&worker->started, memory_order_acquire)) {
        /* release: pairs with the acquire in run(); the doorbell makes the thread read it */
        atomic_store_explicit(&worker->stop, 1, memory_order_release);
        tti_worker_notify(worker);
        pthread_join(worker->thread, NULL);
    }
    pthread_mutex_destroy(&worker->lock);
}
