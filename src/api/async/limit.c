/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and a limited wait: tutti_run_with_limit and tutti_run_all_with_limit. The limit and the token belong to the
 * wait, so nothing here fails or cancels an operation. The caller keeps the handles of the unfinished ones.
 */
#include <stdbool.h>
#include <stdio.h>

#include "api/async/run.h"
#include "api/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/async/work/wait_token.h"
#include "core/async/work/work.h"
#include "core/group/group_table.h"

/* The bounds of a wait. */
struct bound {
    int64_t limit_ms;
    int64_t until_ns;
    tutti_cancel_token *token;  /* may be NULL; not held, so that it may be destroyed meanwhile */
    struct tti_token_wait wait; /* if there is a token */
};

/* Fills the bound. Fails if the token is invalid or has fired. */
static tutti_status open_bound(struct bound *b, const struct tti_run *run, int64_t limit_ms, tutti_cancel_token *token,
                               tutti_error *error)
{
    tutti_status status = tti_check_limit(run->function, limit_ms, error);
    *b = (struct bound){.limit_ms = limit_ms, .token = token};
    if (status != TUTTI_OK) {
        return status;
    }
    if (token && (status = tti_token_wait_begin(&b->wait, token)) != TUTTI_OK) {
        return status == TUTTI_CANCELLED
                   ? tti_error_set(error, status, "%s: the token has fired; nothing was started", run->function)
                   : tti_handle_error(error, status, run->function, "token", TTI_KIND_TOKEN);
    }
    b->until_ns = tti_deadline_ns(tti_now_ns(), limit_ms);
    return TUTTI_OK;
}

static void close_bound(struct bound *b)
{
    if (b->token) {
        tti_token_wait_end(&b->wait);
    }
}

/* The status of the work if it has ended. Else *ended is false, and the status is why the wait ends: BUSY at the limit,
 * CANCELLED by the token, or an error of the handle. Fills `cause`. */
static tutti_status wait_for(struct bound *b, tutti_work *work, bool *ended, tutti_error *cause)
{
    tutti_status status = TUTTI_OK;
    struct tti_work *w = tti_work_acquire(work, &status);
    *ended = false;
    if (!w) {
        return tti_error_set(cause, status, "its work cannot be waited for: %s", tutti_status_string(status));
    }
    if (tti_work_poll(w)) {
        status = TUTTI_OK;
    } else if (tti_work_would_deadlock(w)) { /* the work of another group */
        status = tti_error_set(cause, TUTTI_WOULD_DEADLOCK, "called from a callback of the work's group");
    } else if (b->token) {
        status = tti_token_wait_for(&b->wait, w, b->until_ns, cause);
    } else {
        status = tti_work_wait(w, b->until_ns) ? TUTTI_OK : TUTTI_BUSY;
    }
    if (tti_work_ended(w)) {
        *ended = true;
        status = tti_work_get_outcome(w, cause);
    }
    tti_work_drop(w);
    return status;
}

/* The sentence of a wait that ends before all operations. */
static tutti_status stopped(const struct tti_run *run, const struct bound *b, tutti_status status, size_t count,
                            tutti_work *const *works, tutti_error *error)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t ended = 1;
        open += tutti_work_test(works[i], &ended) == TUTTI_OK && !ended;
    }
    if (status == TUTTI_BUSY) {
        tti_error_set(error, status, "%s: the limit of %lld ms has passed; %zu of %zu operations go on", run->function,
                      (long long)b->limit_ms, open, count);
    } else {
        tti_error_set(error, status, "%s: the token has fired; %zu of %zu operations go on", run->function, open,
                      count);
    }
    if (error) {
        error->rank = run->group->rank;
        error->deadline_ms = b->limit_ms;
    }
    return status;
}

/* Starts all. After an error the caller has the handles of those that started. */
static tutti_status start_all(const struct tti_run *run, const tutti_start *operations, size_t count, bool numbered,
                              tutti_work **works, tutti_error *error)
{
    char place[48] = "";
    tutti_error cause;
    tutti_call options;
    tutti_call_init(&options);
    for (size_t i = 0; i < count; i++) {
        const tutti_status status = tti_run_start(run, &operations[i], &options, &works[i], &cause);
        if (status != TUTTI_OK) {
            if (numbered) {
                snprintf(place, sizeof(place), "operations[%zu]: ", i);
            }
            tti_run_report(run, place, &cause, error);
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status wait_for_all(const struct tti_run *run, struct bound *b, size_t count, bool numbered,
                                 tutti_work *const *works, tutti_error *error)
{
    char place[48] = "";
    tutti_error cause;
    tutti_status first = TUTTI_OK;
    for (size_t i = 0; i < count; i++) {
        bool ended;
        const tutti_status status = wait_for(b, works[i], &ended, &cause);
        if (!ended && (status == TUTTI_BUSY || status == TUTTI_CANCELLED)) {
            return stopped(run, b, status, count, works, error);
        }
        if (tti_run_outranks(status, first)) {
            first = status;
            if (numbered) {
                snprintf(place, sizeof(place), "operations[%zu]: ", i);
            }
            tti_run_report(run, place, &cause, error);
        }
    }
    return first == TUTTI_OK ? tti_error_clear(error) : first;
}

/* Also if the call is refused: the caller may release all that are not NULL. */
static void clear(tutti_work **works, size_t count)
{
    for (size_t i = 0; works && i < count; i++) {
        works[i] = NULL;
    }
}

static tutti_status run_all(struct tti_run *run, const tutti_start *operations, size_t count, bool numbered,
                            int64_t limit_ms, tutti_cancel_token *token, tutti_work **works, tutti_error *error)
{
    struct bound bound;
    tutti_status status = tti_run_open(run, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = open_bound(&bound, run, limit_ms, token, error);
    if (status == TUTTI_OK) {
        status = start_all(run, operations, count, numbered, works, error);
        status = status == TUTTI_OK ? wait_for_all(run, &bound, count, numbered, works, error) : status;
        close_bound(&bound);
    }
    tti_group_release(run->group);
    return status;
}

tutti_status tutti_run_with_limit(tutti_group *group, tutti_start_function start, void *user, int64_t limit_ms,
                                  tutti_cancel_token *token, tutti_work **work, tutti_error *error)
{
    struct tti_run run = {.function = "run_with_limit", .handle = group};
    const tutti_start operation = {.start = start, .user = user};
    clear(work, 1);
    if (!start || !work) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the %s is NULL", run.function,
                             start ? "pointer for the work" : "start function");
    }
    return run_all(&run, &operation, 1, false, limit_ms, token, work, error);
}

tutti_status tutti_run_all_with_limit(tutti_group *group, const tutti_start *operations, size_t count, int64_t limit_ms,
                                      tutti_cancel_token *token, tutti_work **works, tutti_error *error)
{
    struct tti_run run = {.function = "run_all_with_limit", .handle = group};
    clear(works, count);
    const tutti_status status = tti_run_check(operations, count, run.function, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!works && count > 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: works is NULL but count is %zu", run.function, count);
    }
    return run_all(&run, operations, count, true, limit_ms, token, works, error);
}
