/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One all_reduce beside one computation, and the pipeline. Both are synchronous: all that they start has ended when
 * they return, so the caller's tensors are free on every path. `.error` of the call describes the whole. Each opens its
 * call by itself, since it refuses other arguments.
 */
#include "api/overlap/overlap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/call/call.h"

/* Most open works of a pipeline. Each deadline counts from the start, so they must not queue up behind a slow lane; but
 * a computation that is late now and then must not leave the lane idle. */
#define WINDOW 8

tutti_status tti_overlap_end(tutti_work *work, tutti_error *details)
{
    tutti_status status = tutti_work_wait(work, TUTTI_FOREVER);
    if (tutti_work_error(work, details) != TUTTI_OK) {
        tti_error_set(details, status, "an operation could not be waited for: %s", tutti_status_string(status));
    }
    tutti_work_release(work);
    return status;
}

void tti_overlap_locate(tutti_error *error, const char *format, ...)
{
    char where[128];
    va_list args;
    va_start(args, format);
    vsnprintf(where, sizeof(where), format, args);
    va_end(args);
    tutti_error whole;
    tti_error_set(&whole, error->status, "%s: %s", where, error->message);
    memcpy(error->message, whole.message, sizeof(error->message));
}

/* tti_call_begin, and the options of the operations that the call starts: they have its callback, the call has none. */
static tutti_status begin(struct tti_call *c, tutti_group *group, const char *function, const tutti_call *call,
                          tutti_call *start)
{
    tutti_status status = tti_call_begin(c, group, TUTTI_OP_ALL_REDUCE, true, call);
    if (status != TUTTI_OK) {
        return status;
    }
    *start = c->options;
    c->options.callback = NULL;
    if (tti_in_callback(c->group)) {
        return tti_call_end(
            c, tti_error_set(c->error, TUTTI_WOULD_DEADLOCK, "%s: called from a callback of the same group", function));
    }
    return TUTTI_OK;
}

/* tti_call_end with an error that has its operation's sequence. */
static tutti_status end(struct tti_call *c, const tutti_error *why, tutti_status status)
{
    if (status != TUTTI_OK) {
        *c->error = *why;
        c->sequence = why->sequence;
    }
    return tti_call_end(c, status);
}

tutti_status tutti_overlap_all_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                      tutti_compute_function compute, void *user, const tutti_call *call)
{
    struct tti_call c;
    tutti_call start;
    tutti_error why;
    tutti_status status = begin(&c, group, "overlap_all_reduce", call, &start);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!compute) {
        return end(&c, &why,
                   tti_error_set(&why, TUTTI_INVALID_ARGUMENT, "overlap_all_reduce: compute is NULL, not a function"));
    }
    tutti_work *work = NULL;
    start.error = &why;
    status = tutti_all_reduce_async(group, input, output, op, &start, &work);
    tutti_status computed = TUTTI_OK;
    if (status == TUTTI_OK) {
        computed = compute(user);
        status = tti_overlap_end(work, &why);
    }
    if (status != TUTTI_OK) {
        tti_overlap_locate(&why, "overlap_all_reduce");
    }
    if (computed != TUTTI_OK) {
        status = tti_error_set(&why, computed, "overlap_all_reduce: the computation returned %s",
                               tutti_status_name(computed));
    }
    return end(&c, &why, status);
}

/* Indices count tensors: works ended..started-1 are open, in open[index % WINDOW]. */
struct pipeline {
    tutti_work *open[WINDOW];
    size_t started;
    size_t ended;
    bool group_failed;
    tutti_status status; /* the first error among those that have ended */
    tutti_error why;
};

static void end_oldest(struct pipeline *p)
{
    tutti_error details;
    tutti_status status = tti_overlap_end(p->open[p->ended % WINDOW], &details);
    p->group_failed = p->group_failed || status >= TUTTI_TIMEOUT;
    if (status != TUTTI_OK && p->status == TUTTI_OK) {
        p->status = status;
        p->why = details;
        tti_overlap_locate(&p->why, "overlap_pipeline: tensor %zu", p->ended);
    }
    p->ended++;
}

/* Collects ended works, and waits until there is room for another one. */
static void make_room(struct pipeline *p)
{
    while (p->ended < p->started) {
        int32_t ended = 0;
        bool full = p->started - p->ended == WINDOW;
        if (!full && (tutti_work_test(p->open[p->ended % WINDOW], &ended) != TUTTI_OK || !ended)) {
            return;
        }
        end_oldest(p);
    }
}

static tutti_status start_next(struct pipeline *p, tutti_group *group, DLTensor *tensor, tutti_reduce_op op,
                               const tutti_call *options)
{
    make_room(p);
    tutti_status status = tutti_all_reduce_async(group, tensor, tensor, op, options, &p->open[p->started % WINDOW]);
    if (status == TUTTI_OK) {
        p->started++;
    } else {
        tti_overlap_locate(options->error, "overlap_pipeline: tensor %zu", p->started);
    }
    return status;
}

static tutti_status check_pipeline(DLTensor *const *tensors, size_t count, tutti_pipeline_function compute,
                                   tutti_error *error)
{
    if (!compute) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "overlap_pipeline: compute is NULL, not a function");
    }
    if (!tensors && count > 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "overlap_pipeline: tensors is NULL but count is %zu",
                             count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!tensors[i]) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "overlap_pipeline: tensors[%zu] of %zu is NULL", i,
                                 count);
        }
    }
    return TUTTI_OK;
}

tutti_status tutti_overlap_pipeline(tutti_group *group, DLTensor *const *tensors, size_t count, tutti_reduce_op op,
                                    tutti_pipeline_function compute, void *user, const tutti_call *call)
{
    struct tti_call c;
    tutti_call start;
    tutti_error why;
    tutti_status status = begin(&c, group, "overlap_pipeline", call, &start);
    if (status != TUTTI_OK) {
        return status;
    }
    if ((status = check_pipeline(tensors, count, compute, &why)) != TUTTI_OK) {
        return end(&c, &why, status);
    }
    struct pipeline p = {.status = TUTTI_OK};
    start.error = &why;
    /* A failure that leaves the group usable does not stop the rest: other ranks may notice it some tensors earlier or
     * later, and their calls would then differ. */
    for (size_t i = 0; i < count && status == TUTTI_OK && !p.group_failed; i++) {
        status = compute(i, tensors[i], user);
        if (status != TUTTI_OK) {
            tti_error_set(&why, status, "overlap_pipeline: the computation of tensor %zu returned %s", i,
                          tutti_status_name(status));
        } else {
            status = start_next(&p, group, tensors[i], op, &start);
        }
    }
    while (p.ended < p.started) {
        end_oldest(&p);
    }
    /* Errors of earlier works come before the one that stopped the pipeline. */
    return p.status != TUTTI_OK ? end(&c, &p.why, p.status) : end(&c, &why, status);
}
