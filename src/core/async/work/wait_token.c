/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a work or a token: both raise an event counter, on which the waiter sleeps. */
#include "core/async/work/wait_token.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/token.h"
#include "core/async/work/stage.h"
#include "core/async/work/work.h"

struct waiter {
    struct tti_watch watch;
    struct tti_token_link link;
    _Atomic uint32_t ended; /* release by the thread that notifies, acquire by the waiter */
    _Atomic uint32_t fired;
    _Atomic uint32_t event_count;
};

static void notify(struct waiter *v)
{
    atomic_fetch_add_explicit(&v->event_count, 1, memory_order_release);
    syscall(SYS_futex, &v->event_count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void work_ended(struct tti_watch *watch)
{
    struct waiter *v = (struct waiter *)((char *)watch - offsetof(struct waiter, watch));
    atomic_store_explicit(&v->ended, 1, memory_order_release);
    notify(v);
}

static bool token_fired(struct tti_token_link *link)
{
    struct waiter *v = (struct waiter *)((char *)link - offsetof(struct waiter, link));
    atomic_store_explicit(&v->fired, 1, memory_order_release);
    notify(v);
    return false;
}

static void sleep_until_event(struct waiter *v, int64_t until_ns)
{
    struct timespec limit = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    uint32_t seen = atomic_load_explicit(&v->event_count, memory_order_acquire);
    if (!atomic_load_explicit(&v->ended, memory_order_acquire) &&
        !atomic_load_explicit(&v->fired, memory_order_acquire)) {
        syscall(SYS_futex, &v->event_count, FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns == TTI_NEVER ? NULL : &limit,
                NULL, FUTEX_BITSET_MATCH_ANY);
    }
}

static tutti_status stopped(tutti_error *error)
{
    return tti_error_set(error, TUTTI_CANCELLED, "work_wait_token: the token has fired; the operation goes on");
}

tutti_status tti_work_wait_token(struct tti_work *w, int64_t until_ns, tutti_cancel_token *token, tutti_error *error)
{
    struct waiter v = {.watch = {.ended = work_ended}, .link = {.fired = token_fired}};
    tutti_status status = tti_token_link(token, &v.link);
    if (tti_work_ended(w)) {
        tti_token_unlink(&v.link);
        return tti_work_get_outcome(w, error);
    }
    if (status != TUTTI_OK) {
        return status == TUTTI_CANCELLED
                   ? stopped(error)
                   : tti_error_set(error, status, "work_wait_token: the token was destroyed, or never was one");
    }
    bool ended = !tti_work_watch(w, &v.watch);
    if (!ended) {
        tti_work_push(w);
        while (!atomic_load_explicit(&v.ended, memory_order_acquire) &&
               !atomic_load_explicit(&v.fired, memory_order_acquire) &&
               (until_ns == TTI_NEVER || tti_now_ns() < until_ns)) {
            sleep_until_event(&v, until_ns);
        }
        tti_work_unwatch(w, &v.watch);
        ended = tti_work_ended(w);
    }
    tti_token_unlink(&v.link);
    if (ended) {
        return tti_work_get_outcome(w, error);
    }
    return atomic_load_explicit(&v.fired, memory_order_acquire)
               ? stopped(error)
               : tti_error_set(error, TUTTI_BUSY, "work_wait_token: the operation has not ended within the limit");
}
