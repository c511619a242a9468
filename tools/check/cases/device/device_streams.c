/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation stands between the work before it and behind it on a stream of the application's. What must not happen
 * too early is made late: a stream waits for a word that is written only after the call has begun, or a rank comes
 * late.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/device_memory.h"
#include "check/reference/expect.h"
#include "common/device_arena.h"

/* Work on a stream of the application's that writes an input late. */
struct late_work {
    const struct tti_device *driver;
    void *stream;
    uint32_t *word; /* the stream waits for it; or NULL, and copies keep the stream busy */
    void *ballast;
};

enum { BALLAST_BYTES = 32 << 20, BALLAST_COPIES = 64 };

/* Inside. */
static tutti_status hold_stream(struct late_work *w, struct tti_check *c)
{
    tutti_status status = TUTTI_UNSUPPORTED;
    if (w->driver->stream_wait_word) {
        void *word = NULL;
        status = w->driver->alloc_host(sizeof(*w->word), &word, &c->error);
        if (status != TUTTI_OK) {
            return status;
        }
        *(uint32_t *)word = 0;
        status = w->driver->stream_wait_word(w->stream, word, 1, &c->error);
        if (status == TUTTI_OK) {
            w->word = word;
            return TUTTI_OK;
        }
        w->driver->free_host(word, NULL);
    }
    if (status != TUTTI_UNSUPPORTED) {
        return status;
    }
    w->ballast = tti_check_device_alloc(c->arena, BALLAST_BYTES);
    status = TUTTI_OK;
    for (int i = 0; i < BALLAST_COPIES && status == TUTTI_OK; i++) {
        unsigned char *half = (unsigned char *)w->ballast + BALLAST_BYTES / 2;
        status = w->driver->copy(i % 2 == 0 ? half : w->ballast, i % 2 == 0 ? w->ballast : half, BALLAST_BYTES / 2,
                                 w->stream, &c->error);
    }
    return status;
}

/* Lets the stream go, when the call below has begun or, if that waits for the stream before it returns, a while
 * later. */
static void *let_go(void *user)
{
    struct late_work *w = user;
    for (int i = 0; i < 10; i++) {
        tti_check_delay_rank();
    }
    if (w->word) {
        /* relaxed: the device reads this word and nothing else */
        atomic_store_explicit((_Atomic uint32_t *)w->word, 1, memory_order_relaxed);
    }
    return NULL;
}

static tutti_status queue_late_work(struct late_work *w, struct tti_check *c, const struct tti_check_tensor *to,
                                    const struct tti_check_tensor *from)
{
    tutti_status status = w->driver->stream_create(&w->stream, &c->error);
    if (status == TUTTI_OK) {
        status = hold_stream(w, c);
    }
    if (status == TUTTI_OK) {
        /* within the device: a copy from pageable memory might wait for the stream */
        status = w->driver->copy(to->there + to->start, from->there + from->start, to->span, w->stream, &c->error);
    }
    return status;
}

/* Waits until nothing queued can touch the tensors any more. */
static tutti_status drain(struct late_work *w, struct tti_check *c)
{
    void *event = NULL;
    tutti_status status = w->driver->event_create(&event, &c->error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = w->driver->event_record(event, w->stream, &c->error);
    if (status == TUTTI_OK) {
        const int64_t deadline = tti_deadline_ns(tti_now_ns(), c->options->timeout_ms);
        status = tti_device_await(w->driver, event, deadline, &c->error);
    }
    const tutti_status destroyed = w->driver->event_destroy(event, status == TUTTI_OK ? &c->error : NULL);
    return status == TUTTI_OK ? destroyed : status;
}

static void end_late_work(struct late_work *w, struct tti_check *c)
{
    if (w->stream) {
        tti_check_ok(c, "the end of the stream", drain(w, c));
        tti_check_ok(c, "stream_destroy", w->driver->stream_destroy(w->stream, &c->error));
    }
    if (w->word) {
        tti_check_ok(c, "free_host", w->driver->free_host(w->word, &c->error));
    }
    if (w->ballast) {
        tti_device_arena_free(c->arena, w->ballast, BALLAST_BYTES);
    }
}

/* The input is written by what is queued on the stream, which cannot be done before the operation has been called. */
static void behind_a_stream(struct tti_check *c, struct late_work *w, int64_t count)
{
    struct tti_check_tensor input;
    struct tti_check_tensor later;
    struct tti_check_tensor output;
    struct tti_check_pending f;
    pthread_t thread;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    tti_check_tensor_make(c, &input, p.dtype, 1, p.shape, TTI_CHECK_COMPACT);
    tti_check_tensor_make(c, &later, p.dtype, 1, p.shape, TTI_CHECK_COMPACT);
    tti_check_tensor_make(c, &output, p.dtype, 1, p.shape, TTI_CHECK_COMPACT);
    tti_check_tensor_fill(c, &later, 0, later.count, c->rank, p.pattern, 0);
    const struct tti_check_operation o = {
        .kind = TTI_CHECK_ALL_REDUCE, .op = p.op, .input = &input.t, .output = &output.t, .flags = TUTTI_HAS_STREAM};
    tti_check_pending_init(c, &f, c->completion);
    const bool queued = tti_check_ok(c, "late work on a stream", queue_late_work(w, c, &input, &later));
    f.options.stream = w->stream;
    const bool started = pthread_create(&thread, NULL, let_go, w) == 0;
    if (!started) {
        let_go(w);
    }
    if (queued) {
        tti_check_pending_start(c, &f, &o);
        if (tti_check_ok(c, "all_reduce behind a stream", tti_check_pending_finish(c, &f))) {
            tti_check_expect_fold(c, tti_check_tensor_result(c, &output), &p, 0, output.count, 0);
        }
    }
    if (started) {
        pthread_join(thread, NULL);
    }
    end_late_work(w, c);
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&later);
    tti_check_tensor_free(&output);
}

static void inside(struct tti_check *c, void (*run)(struct tti_check *c, struct late_work *w, int64_t count),
                   int64_t count)
{
    const struct tti_device *driver = tti_device_arena_driver(c->arena);
    struct tti_device_scope scope;
    struct late_work w = {.driver = driver};
    if (tti_check_ok(c, "enter", driver->enter(tti_check_device(c).device_id, &scope, &c->error))) {
        run(c, &w, count);
        driver->leave(&scope);
    }
}

/* Inside: what is queued on a stream reads an output, while one rank has not even begun. */
static void ahead_of_a_stream(struct tti_check *c, struct late_work *w, int64_t count)
{
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job job;
    struct tti_check_tensor later;
    tti_check_job_prepare(&job, c, &tti_check_all_reduce_form, &p, 1);
    struct tti_check *own = &job.check;
    tti_check_tensor_make(c, &later, p.dtype, 1, p.shape, TTI_CHECK_COMPACT);
    if (c->rank == c->size / 2) {
        for (int i = 0; i < 10; i++) {
            tti_check_delay_rank();
        }
    }
    tti_check_job_start(&job, TTI_CHECK_WAIT);
    if (job.pending.work && tti_check_ok(own, "stream_create", w->driver->stream_create(&w->stream, &own->error))) {
        tti_check_ok(own, "work_wait_stream", tutti_work_wait_stream(job.pending.work, w->stream, &own->error));
        tti_check_ok(own, "a copy of the result",
                     w->driver->copy(later.there + later.start, job.output.there + job.output.start, later.span,
                                     w->stream, &own->error));
        end_late_work(w, own);
        tti_check_expect_fold(own, tti_check_tensor_result(own, &later), &p, 0, later.count, 0);
    }
    tti_check_job_finish(&job, TUTTI_OK);
    tti_check_job_end(&job, c);
    tti_check_tensor_free(&later);
}

/* The default stream, which is NULL, is a stream if the flag says so. */
static void default_stream(struct tti_check *c)
{
    struct tti_check_job job;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, 1000);
    tti_check_job_prepare(&job, c, &tti_check_all_reduce_form, &p, 1);
    job.operation.flags = TUTTI_HAS_STREAM;
    tti_check_job_start(&job, TTI_CHECK_SYNC);
    tti_check_job_finish(&job, TUTTI_OK);
    tti_check_job_end(&job, c);
}

void tti_check_device_stream_cases(struct tti_check *c)
{
    static const int64_t counts[] = {5, 1000, 100003};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        TTI_CHECK_ROUNDS(c, 0, "stream/behind/%lld", (long long)counts[i]) {
            inside(c, behind_a_stream, counts[i]);
        }
        TTI_CHECK_CASE(c, "stream/ahead/%lld", (long long)counts[i]) {
            inside(c, ahead_of_a_stream, counts[i]);
        }
    }
    TTI_CHECK_CASE(c, "stream/default") {
        default_stream(c);
    }
}
