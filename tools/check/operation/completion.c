/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operation is brought to its end. Each asynchronous one relies on one promise of tutti/work.h and
 * on nothing else: the one with a descriptor neither tests nor waits before it is readable, the one with a callback
 * sleeps until it is called. A work that keeps such a promise late or never is waited for all the same, since its
 * buffers are in use.
 */
#include "check/operation/completion.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "check/data/data.h"
#include "check/reference/expect.h"
#include "check/watchdog.h"

/* Longer than any operation may take, so that behind it a promise counts as broken; and shorter than the other ranks
 * wait at the end of the case. */
static int64_t completion_timeout_ms(const struct tti_check *c)
{
    return c->options->timeout_ms + c->options->timeout_ms / 2;
}

static void fail_timeout(struct tti_check *c, const char *what)
{
    tti_check_fail(c, "%s within %lld ms", what, (long long)completion_timeout_ms(c));
}

/* ---- waiting for the end ---- */

static void poll_work(struct tti_check *c, tutti_work *work)
{
    const int64_t until = tti_deadline_ns(tti_now_ns(), completion_timeout_ms(c));
    int32_t ended = 0;
    while (tti_check_ok(c, "work_test", tutti_work_test(work, &ended)) && !ended) {
        if (tti_now_ns() > until) {
            fail_timeout(c, "work_test did not see the end");
            return;
        }
        sched_yield();
    }
}

static void wait_with_limits(struct tti_check *c, tutti_work *work)
{
    const int64_t until = tti_deadline_ns(tti_now_ns(), completion_timeout_ms(c));
    int64_t limit = 0;
    while (tutti_work_wait(work, limit) == TUTTI_BUSY) {
        if (tti_now_ns() > until) {
            fail_timeout(c, "waits with limits did not see the end");
            return;
        }
        limit = limit < 16 ? limit + 1 : 0;
    }
}

bool tti_check_readable(int fd, int64_t limit_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = 0;
    do {
        n = poll(&p, 1, limit_ms > INT32_MAX ? INT32_MAX : (int)limit_ms);
    } while (n < 0 && errno == EINTR);
    return n == 1 && (p.revents & POLLIN);
}

static void poll_descriptor(struct tti_check *c, tutti_work *work)
{
    int fd = -1;
    if (!tti_check_ok(c, "work_eventfd", tutti_work_eventfd(work, &fd, &c->error))) {
        return;
    }
    if (!tti_check_readable(fd, completion_timeout_ms(c))) {
        fail_timeout(c, "the descriptor did not become readable");
        return;
    }
    int32_t ended = 0;
    tti_check_ok(c, "work_test", tutti_work_test(work, &ended));
    tti_check_expect_i64(c, "the descriptor is readable, so the work has ended", ended, 1);
    tti_check_expect_i64(c, "the descriptor stays readable", tti_check_readable(fd, 0), 1);
}

static void on_end(tutti_status status, const tutti_error *error, void *user)
{
    struct tti_check_pending *f = user;
    pthread_mutex_lock(&f->mutex);
    f->called++;
    f->reported = error && error->status == status ? status : TUTTI_INTERNAL;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

int tti_check_pending_callbacks(struct tti_check *c, struct tti_check_pending *f)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(completion_timeout_ms(c) / 1000) + 1;
    pthread_mutex_lock(&f->mutex);
    int errnum = 0;
    while (f->called == 0 && errnum == 0) {
        errnum = pthread_cond_timedwait(&f->changed, &f->mutex, &until);
    }
    const int called = f->called;
    pthread_mutex_unlock(&f->mutex);
    if (called == 0) {
        fail_timeout(c, "the callback was not called");
    }
    return called;
}

/* ---- what every ended work has to show ---- */

static void check_ended(struct tti_check *c, struct tti_check_pending *f, tutti_status status)
{
    int32_t ended = 0;
    int32_t cancelled = 2;
    tutti_error details;
    tti_check_ok(c, "work_test behind the end", tutti_work_test(f->work, &ended));
    tti_check_expect_i64(c, "a work that was waited for has ended", ended, 1);
    tti_check_expect_i64(c, "status of the second wait", tutti_work_wait(f->work, 0), status);
    tti_check_ok(c, "work_cancelled", tutti_work_cancelled(f->work, &cancelled));
    tti_check_expect_i64(c, "it counts as cancelled", cancelled, status == TUTTI_CANCELLED);
    if (tti_check_ok(c, "work_error behind the end", tutti_work_error(f->work, &details))) {
        tti_check_expect_i64(c, "status in the details", details.status, status);
        tti_check_expect_i64(c, "rank in the details", details.rank, c->rank);
        c->error = details;
    }
    if (f->options.callback) {
        pthread_mutex_lock(&f->mutex);
        tti_check_expect_i64(c, "calls of the callback", f->called, 1);
        tti_check_expect_i64(c, "status of the callback", f->reported, status);
        pthread_mutex_unlock(&f->mutex);
    }
}

/* ---- flights ---- */

void tti_check_pending_init(struct tti_check *c, struct tti_check_pending *f, enum tti_check_completion completion)
{
    *f = (struct tti_check_pending){
        .completion = completion,
        .options = {.size = (uint32_t)sizeof(tutti_call), .lane = c->lane, .error = &c->error},
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    if (completion == TTI_CHECK_CALLBACK) {
        f->options.callback = on_end;
        f->options.user = f;
    }
}

void tti_check_pending_start(struct tti_check *c, struct tti_check_pending *f, const struct tti_check_operation *o)
{
    tti_check_watchdog_step();
    f->options.flags = o->flags;
    f->options.tag = o->user_tag;
    f->options.scale = o->scale;
    f->options.wire = o->wire;
    f->options.timeout_ms = o->timeout_ms;
    f->options.token = o->token;
    const bool synchronous = f->completion == TTI_CHECK_SYNC || (tti_check_is_message(o->kind) && !c->messages);
    if (synchronous) {
        /* A rank in two uses a persistent operation for its synchronous calls of a case, which the others cannot
         * see. */
        const uint64_t draw = tti_check_mix(c->key, UINT64_C(0x70657273) + (uint64_t)c->rank) >> 8;
        f->options.callback = NULL;
        f->started = tti_check_has_persistent_form(o->kind) && draw % 2 == 0
                         ? tti_check_call_persistent(c->group, o, &f->options, draw / 2 % 2 == 0)
                         : tti_check_call(c->group, o, &f->options, NULL);
    } else {
        f->started = tti_check_call_temporary(c, o, &f->options, &f->work);
        tti_check_expect_i64(c, "there is a work if and only if the start succeeded", f->work != NULL,
                             f->started == TUTTI_OK);
    }
}

tutti_status tti_check_pending_wait(struct tti_check *c, struct tti_check_pending *f)
{
    tti_check_watchdog_step();
    if (!f->work) {
        return f->started;
    }
    switch (f->completion) {
    case TTI_CHECK_TEST:
        poll_work(c, f->work);
        break;
    case TTI_CHECK_LIMITS:
        wait_with_limits(c, f->work);
        break;
    case TTI_CHECK_EVENTFD:
        poll_descriptor(c, f->work);
        break;
    case TTI_CHECK_CALLBACK:
        tti_check_pending_callbacks(c, f);
        break;
    default:
        break;
    }
    const tutti_status status = tutti_work_wait(f->work, TUTTI_FOREVER);
    check_ended(c, f, status);
    return status;
}

void tti_check_pending_release(struct tti_check *c, struct tti_check_pending *f)
{
    if (f->work) {
        tti_check_expect_i64(c, "status of work_release", tutti_work_release(f->work), TUTTI_OK);
        f->work = NULL;
    }
}

tutti_status tti_check_pending_finish(struct tti_check *c, struct tti_check_pending *f)
{
    const tutti_status status = tti_check_pending_wait(c, f);
    tti_check_pending_release(c, f);
    return status;
}

static int64_t stride_of(const DLTensor *t, int dim)
{
    int64_t step = 1;
    for (int d = t->ndim - 1; d > dim; d--) {
        step *= t->shape[d];
    }
    return t->strides ? t->strides[dim] : step;
}

void tti_check_pending_result(struct tti_check *c, struct tti_check_pending *f, const DLTensor *output)
{
    if (!f->work) {
        return;
    }
    DLTensor view;
    const tutti_status status = tutti_work_result(f->work, &view, &c->error);
    if (!tti_check_status(c, "work_result", status, output ? TUTTI_OK : TUTTI_NOT_FOUND) || !output) {
        return;
    }
    const bool same = (const char *)view.data + view.byte_offset == (const char *)output->data + output->byte_offset;
    tti_check_expect_i64(c, "the result lies where the output does", same, 1);
    tti_check_expect_i64(c, "kind of the result's device", view.device.device_type, output->device.device_type);
    tti_check_expect_i64(c, "the result's device", view.device.device_id, output->device.device_id);
    tti_check_expect_i64(c, "dtype of the result", tutti_dtype_from_dlpack(view.dtype),
                         tutti_dtype_from_dlpack(output->dtype));
    if (tti_check_expect_i64(c, "dimensions of the result", view.ndim, output->ndim)) {
        for (int d = 0; d < view.ndim; d++) {
            tti_check_expect_i64(c, "length of the result", view.shape[d], output->shape[d]);
            tti_check_expect_i64(c, "stride of the result", stride_of(&view, d), stride_of(output, d));
        }
    }
}

tutti_status tti_check_do(struct tti_check *c, const struct tti_check_operation *o)
{
    struct tti_check_pending f;
    tti_check_pending_init(c, &f, c->completion);
    tti_check_pending_start(c, &f, o);
    return tti_check_pending_finish(c, &f);
}

/* ---- choosing ---- */

enum tti_check_completion tti_check_random_completion(const struct tti_check *c, uint64_t number, unsigned synchronous)
{
    enum { ASYNCHRONOUS = TTI_CHECK_CALLBACK };
    const uint64_t common = tti_check_mix(c->key, number);
    const uint64_t draw = common % 4 == 0 ? common >> 8 : tti_check_mix(common, (uint64_t)c->rank) >> 8;
    return draw % 8 < synchronous ? TTI_CHECK_SYNC : (enum tti_check_completion)(1 + (draw >> 8) % ASYNCHRONOUS);
}

const char *tti_check_completion_name(const struct tti_check *c)
{
    static const char *const names[] = {[TTI_CHECK_SYNC] = "",
                                        [TTI_CHECK_WAIT] = " (asynchronous, waiting)",
                                        [TTI_CHECK_TEST] = " (asynchronous, testing)",
                                        [TTI_CHECK_LIMITS] = " (asynchronous, waiting with limits)",
                                        [TTI_CHECK_EVENTFD] = " (asynchronous, by its descriptor)",
                                        [TTI_CHECK_CALLBACK] = " (asynchronous, by its callback)"};
    return names[c->completion];
}
