/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a work or a token: both raise an event counter, on which the waiter sleeps (a futex).
 *
 * Memory order: a notifier stores its flag (`ended` or `fired`) and then increments `event_count`, both with release.
 * The waiter loads `event_count` and then the flags, all with acquire. If its load of the count sees the increment, it
 * sees the flag, too, and does not sleep. If it does not see the increment, the kernel finds another count than `seen`
 * and does not let it sleep, or the wake-up comes after it has gone to sleep.
 *
 * The wait lies on the stack of its thread. tti_work_unwatch and tti_token_unlink return only when the notifying
 * function is not running and will not run, so no notifier touches it afterwards.
 */
#include "core/async/work/wait_token.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/futex.h"
#include "core/async/work/work.h"

static void notify(struct tti_token_wait *v)
{
    /* release: pairs with the load in sleep_until_event, which then sees the flag that was stored before */
    atomic_fetch_add_explicit(&v->event_count, 1, memory_order_release);
    syscall(SYS_futex, &v->event_count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void work_ended(struct tti_watch *watch)
{
    struct tti_token_wait *v = (struct tti_token_wait *)((char *)watch - offsetof(struct tti_token_wait, watch));
    /* release: pairs with the acquire loads of `ended` by the waiter, as the one in token_fired does with `fired` */
    atomic_store_explicit(&v->ended, 1, memory_order_release);
    notify(v);
}

static bool token_fired(struct tti_token_link *link)
{
    struct tti_token_wait *v = (struct tti_token_wait *)((char *)link - offsetof(struct tti_token_wait, link));
    atomic_store_explicit(&v->fired, 1, memory_order_release);
    notify(v);
    return false;
}

static void sleep_until_event(struct tti_token_wait *v, int64_t until_ns)
{
    /* acquire: pairs with notify. The count is read before the flags: an event after this load changes it, and then the
     * futex does not sleep. */
    uint32_t seen = atomic_load_explicit(&v->event_count, memory_order_acquire);
    if (!atomic_load_explicit(&v->ended, memory_order_acquire) &&
        !atomic_load_explicit(&v->fired, memory_order_acquire)) {
        tti_futex_sleep(&v->event_count, seen, until_ns);
    }
}

static tutti_status stopped(tutti_error *error)
{
    return tti_error_set(error, TUTTI_CANCELLED, "work_wait_token: the token has fired; the operation goes on");
}

tutti_status tti_token_wait_begin(struct tti_token_wait *v, tutti_cancel_token *token)
{
    *v = (struct tti_token_wait){.watch = {.ended = work_ended}, .link = {.fired = token_fired}};
    return tti_token_link(token, &v->link);
}

void tti_token_wait_end(struct tti_token_wait *v)
{
    tti_token_unlink(&v->link);
}

tutti_status tti_token_wait_for(struct tti_token_wait *v, struct tti_work *w, int64_t until_ns, tutti_error *error)
{
    atomic_store_explicit(&v->ended, 0, memory_order_relaxed); /* of the work before, which is not watched any more */
    bool ended = !tti_work_watch(w, &v->watch);
    if (!ended) {
        tti_work_push(w);
        /* acquire: pairs with work_ended and token_fired */
        while (!atomic_load_explicit(&v->ended, memory_order_acquire) &&
               !atomic_load_explicit(&v->fired, memory_order_acquire) &&
               (until_ns == TTI_NEVER || tti_now_ns() < until_ns)) {
            sleep_until_event(v, until_ns);
        }
        tti_work_unwatch(w, &v->watch);
        ended = tti_work_ended(w);
    }
    if (ended) {
        return tti_work_get_outcome(w, error);
    }
    return atomic_load_explicit(&v->fired, memory_order_acquire)
               ? stopped(error)
               : tti_error_set(error, TUTTI_BUSY, "work_wait_token: the operation has not ended within the limit");
}

tutti_status tti_work_wait_token(struct tti_work *w, int64_t until_ns, tutti_cancel_token *token, tutti_error *error)
{
    struct tti_token_wait v;
    tutti_status status = tti_token_wait_begin(&v, token);
    if (tti_work_ended(w)) {
        status = tti_work_get_outcome(w, error);
    } else if (status == TUTTI_OK) {
        status = tti_token_wait_for(&v, w, until_ns, error);
    } else {
        status = status == TUTTI_CANCELLED
                     ? stopped(error)
                     : tti_handle_error(error, status, "work_wait_token", "token", TTI_KIND_TOKEN);
    }
    tti_token_wait_end(&v);
    return status;
}
