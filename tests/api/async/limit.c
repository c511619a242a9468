/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting, and waiting with a limit or a token that end the wait only. An operation cannot end before rank 1 joins it,
 * which it does once rank 0 has checked its wait.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "api/async/work_end.h"
#include "api/check.h"
#include "clock.h"
#include "start_functions.h"

#define RANKS 2
#define MANY  50

static tutti_status count_calls(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)work;
    ++*(int *)user;
    return TUTTI_INTERNAL;
}

/* An operation that ends in time: the status is its own, and the handle has the result. */
static void results(tutti_group *g)
{
    tutti_error e;
    static int32_t values[RANKS][MANY];
    tutti_start operations[MANY];
    tutti_work *works[MANY];
    DLTensor view;
    const int32_t me = tutti_group_rank(g);
    int32_t value = me + 1;
    EXPECT_OK(tutti_run_with_limit(g, start_sum, &value, TUTTI_FOREVER, NULL, works, &e));
    EXPECT(value == 3 && e.size == sizeof(e) && e.status == TUTTI_OK && has_ended(works[0]));
    EXPECT_OK(tutti_work_result(works[0], &view, &e));
    EXPECT(view.data == &value);
    EXPECT_OK(end(works[0]));
    for (int i = 0; i < MANY; i++) {
        values[me][i] = me + i;
        operations[i] = (tutti_start){.start = i % 3 == 0 ? start_sum_beside : start_sum, .user = &values[me][i]};
    }
    EXPECT_OK(tutti_run_all_with_limit(g, operations, MANY, LONG_MS, NULL, works, &e));
    for (int i = 0; i < MANY; i++) {
        EXPECT(values[me][i] == 2 * i + 1 && has_ended(works[i]));
        EXPECT_OK(end(works[i]));
    }
    EXPECT_OK(tutti_run_all_with_limit(g, NULL, 0, 0, NULL, NULL, &e));
}

static void causes(tutti_group *g)
{
    tutti_error e;
    int32_t value = 1;
    tutti_work *works[3];
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "run_with_limit: all_reduce: ",
                 tutti_run_with_limit(g, start_mismatch, &value, LONG_MS, NULL, works, &e));
    EXPECT(e.scope == TUTTI_SCOPE_WORK && e.operation == TUTTI_OP_ALL_REDUCE && e.rank == tutti_group_rank(g));
    EXPECT(end(works[0]) == TUTTI_MISMATCH);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "cannot be waited for",
                 tutti_run_with_limit(g, start_and_release, &value, LONG_MS, NULL, works, &e));
    EXPECT_USABLE(g);
    tutti_start operations[] = {{start_sum, &value}, {start_mismatch, &value}, {start_mismatch, &value}};
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "run_all_with_limit: operations[1]: all_reduce: ",
                 tutti_run_all_with_limit(g, operations, 3, TUTTI_FOREVER, NULL, works, &e));
    EXPECT(end(works[0]) == TUTTI_OK && end(works[1]) == TUTTI_MISMATCH && end(works[2]) == TUTTI_MISMATCH);
    EXPECT_USABLE(g);
}

static void bad_arguments(tutti_group *g)
{
    tutti_error e;
    int32_t value = 1;
    int calls = 0;
    tutti_work *work = (tutti_work *)&value;
    tutti_start none[] = {{NULL, NULL}};
    tutti_start some[] = {{count_calls, &calls}};
    tutti_cancel_token *token = NULL;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "start function", tutti_run_with_limit(g, NULL, NULL, 0, NULL, &work, &e));
    EXPECT(work == NULL);
    work = (tutti_work *)&value;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "work", tutti_run_with_limit(g, count_calls, &calls, 0, NULL, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "limit_ms",
                 tutti_run_with_limit(g, count_calls, &calls, -2, NULL, &work, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL",
                 tutti_run_with_limit(NULL, count_calls, &calls, 0, NULL, &work, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "operations is NULL",
                 tutti_run_all_with_limit(g, NULL, 1, 0, NULL, &work, &e));
    work = (tutti_work *)&value;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "operations[0]", tutti_run_all_with_limit(g, none, 1, 0, NULL, &work, &e));
    EXPECT(work == NULL);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "works is NULL", tutti_run_all_with_limit(g, some, 1, 0, NULL, NULL, &e));
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "token", tutti_run_with_limit(g, count_calls, &calls, 0, token, &work, &e));
    EXPECT_OK(tutti_cancel_token_create(NULL, 0, &token, &e));
    work = (tutti_work *)&value;
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "nothing was started",
                 tutti_run_with_limit(g, count_calls, &calls, 0, token, &work, &e));
    EXPECT(work == NULL && calls == 0);
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT(tutti_run_with_limit(g, count_calls, &calls, 0, NULL, &work, NULL) == TUTTI_INTERNAL);
    EXPECT(work == NULL && calls == 1);
}

/* What rank 0 and rank 1 share in a case. */
struct scene {
    tutti_work *first; /* rank 0's */
    _Atomic int started;
    _Atomic int join;
    int32_t values[RANKS][3];
};

static tutti_status start_first(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct scene *s = user;
    const tutti_status status = start_sum_beside(g, call, &s->values[tutti_group_rank(g)][0], work);
    s->first = *work;
    return status;
}

/* Starts when the first one has ended. */
static tutti_status start_behind(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct scene *s = user;
    EXPECT_OK(tutti_work_wait(s->first, TUTTI_FOREVER));
    return start_sum(g, call, &s->values[tutti_group_rank(g)][1], work);
}

/* The limit passes. */
static void limit(tutti_group *g, struct scene *s)
{
    tutti_error e;
    tutti_work *works[3];
    int32_t *values = s->values[tutti_group_rank(g)];
    const tutti_start operations[] = {{start_first, s}, {start_behind, s}, {start_sum, &values[2]}};
    values[0] = values[1] = values[2] = 1;
    if (tutti_group_rank(g) == 0) {
        for (int64_t limit_ms = 0; limit_ms < 2; limit_ms++) {
            EXPECT_ERROR(&e, TUTTI_BUSY, limit_ms == 0 ? "limit of 0 ms has passed; 1 of 1 " : "limit of 1 ms",
                         tutti_run_with_limit(g, start_sum, &values[1], limit_ms, NULL, works, &e));
            EXPECT(e.scope == TUTTI_SCOPE_CALL && e.rank == 0 && e.deadline_ms == limit_ms && !has_ended(works[0]));
            atomic_store(&s->join, 1 + (int)limit_ms);
            EXPECT_OK(end(works[0]));
            EXPECT(values[1] == 2);
            values[1] = 1;
        }
        /* rank 1 joins in the first operation only */
        EXPECT_ERROR(&e, TUTTI_BUSY, "2 of 3 operations go on",
                     tutti_run_all_with_limit(g, operations, 3, 1, NULL, works, &e));
        EXPECT(has_ended(works[0]) && !has_ended(works[1]) && !has_ended(works[2]));
        atomic_store(&s->join, 3);
        EXPECT(end(works[2]) == TUTTI_OK && end(works[1]) == TUTTI_OK && end(works[0]) == TUTTI_OK);
    } else {
        for (int i = 0; i < 2; i++) {
            while (atomic_load(&s->join) <= i) {
                sched_yield();
            }
            EXPECT_OK(tutti_run_with_deadline(g, start_sum, &values[1], 0, NULL, &e));
            values[1] = 1;
        }
        EXPECT_OK(tutti_run_with_deadline(g, start_sum_beside, &values[0], 0, NULL, &e));
        while (atomic_load(&s->join) < 3) {
            sched_yield();
        }
        EXPECT_OK(tutti_run_with_deadline(g, start_sum, &values[1], 0, NULL, &e));
        EXPECT_OK(tutti_run_with_deadline(g, start_sum, &values[2], 0, NULL, &e));
    }
    EXPECT(values[0] == 2 && values[1] == 2 && values[2] == 2);
    EXPECT_USABLE(g);
}

struct firing {
    tutti_cancel_token *token;
    struct scene *scene;
};

static void *fire(void *user)
{
    const struct firing *f = user;
    EXPECT(await_count(&f->scene->started, 1));
    EXPECT_OK(tutti_cancel_token_cancel(f->token, NULL, NULL));
    return NULL;
}

static tutti_status start_and_tell(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct scene *s = user;
    const tutti_status status = start_sum(g, call, &s->values[0][0], work);
    atomic_store(&s->started, 1);
    return status;
}

/* The token fires under a wait without a limit, and the operation has no deadline either. */
static void token(tutti_group *g, struct scene *s)
{
    tutti_error e;
    tutti_work *works[2] = {NULL, NULL};
    pthread_t thread;
    if (tutti_group_rank(g) == 0) {
        struct firing f = {.scene = s};
        const tutti_start operations[] = {{start_sum, &s->values[0][1]}, {start_and_tell, s}};
        EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &f.token, &e));
        EXPECT(pthread_create(&thread, NULL, fire, &f) == 0);
        s->values[0][0] = s->values[0][1] = 1;
        EXPECT_ERROR(&e, TUTTI_CANCELLED, "token has fired; 2 of 2 operations go on",
                     tutti_run_all_with_limit(g, operations, 2, TUTTI_FOREVER, f.token, works, &e));
        EXPECT(e.scope == TUTTI_SCOPE_CALL && e.rank == 0 && !has_ended(works[0]) && !has_ended(works[1]));
        pthread_join(thread, NULL);
        EXPECT_OK(tutti_cancel_token_destroy(f.token, &e));
        atomic_store(&s->join, 1);
        EXPECT(end(works[1]) == TUTTI_OK && end(works[0]) == TUTTI_OK);
        EXPECT(s->values[0][0] == 2 && s->values[0][1] == 2);
    } else {
        EXPECT(await_count(&s->join, 1));
        for (int i = 0; i < 2; i++) {
            s->values[1][i] = 1;
            EXPECT_OK(tutti_run_with_deadline(g, start_sum, &s->values[1][i], 0, NULL, &e));
        }
    }
    EXPECT_USABLE(g);
}

/* One operation cannot be started: those before it belong to the caller, and the call does not wait for them. */
static void one_cannot_start(tutti_group *g, struct scene *s)
{
    tutti_error e;
    int calls = 0;
    tutti_work *works[4];
    int32_t *values = s->values[tutti_group_rank(g)];
    values[0] = values[1] = 1;
    if (tutti_group_rank(g) == 0) {
        const tutti_start operations[] = {
            {start_sum, &values[0]}, {start_sum, &values[1]}, {fail_to_start, NULL}, {count_calls, &calls}};
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "run_all_with_limit: operations[2]: all_reduce: ",
                     tutti_run_all_with_limit(g, operations, 4, TUTTI_FOREVER, NULL, works, &e));
        EXPECT(works[2] == NULL && works[3] == NULL && calls == 0 && !has_ended(works[0]) && !has_ended(works[1]));
        atomic_store(&s->join, 1);
        EXPECT(end(works[0]) == TUTTI_OK && end(works[1]) == TUTTI_OK);
    } else {
        EXPECT(await_count(&s->join, 1));
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(tutti_run_with_deadline(g, start_sum, &values[i], 0, NULL, &e));
        }
    }
    EXPECT(values[0] == 2 && values[1] == 2);
    EXPECT_USABLE(g);
}

struct inside {
    tutti_group *group;
    tutti_status status;
};

static void run_inside(tutti_status status, const tutti_error *error, void *user)
{
    struct inside *i = user;
    tutti_work *work = NULL;
    int32_t value = 1;
    (void)status;
    (void)error;
    i->status = tutti_run_with_limit(i->group, start_sum, &value, 0, NULL, &work, NULL);
    EXPECT(work == NULL);
}

static void in_a_callback(tutti_group *g)
{
    struct inside inside = {.group = g};
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = run_inside, .user = &inside), &work));
    EXPECT_OK(end(work));
    EXPECT(inside.status == TUTTI_WOULD_DEADLOCK);
}

struct destruction {
    tutti_cancel_token *token;
    struct scene *scene;
};

/* Starts behind the destruction of the token, in a call that waits with it. */
static tutti_status start_without_token(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct destruction *d = user;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_OK, "", tutti_cancel_token_destroy(d->token, &e));
    return start_and_tell(g, call, d->scene, work);
}

/* A wait does not hold its token, and goes on without it. */
static void destroyed_token(tutti_group *g, struct scene *s)
{
    tutti_error e;
    tutti_work *works[2] = {NULL, NULL};
    int32_t *values = s->values[tutti_group_rank(g)];
    values[0] = values[1] = 1;
    if (tutti_group_rank(g) == 0) {
        struct destruction d = {.scene = s};
        const tutti_start operations[] = {{start_without_token, &d}, {start_sum, &values[1]}};
        EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &d.token, &e));
        EXPECT_ERROR(&e, TUTTI_BUSY, "2 of 2 operations go on",
                     tutti_run_all_with_limit(g, operations, 2, 1, d.token, works, &e));
        atomic_store(&s->join, 1);
        EXPECT(end(works[0]) == TUTTI_OK && end(works[1]) == TUTTI_OK);
    } else {
        EXPECT(await_count(&s->join, 1));
        EXPECT_OK(tutti_run_with_deadline(g, start_sum, &values[0], 0, NULL, &e));
        EXPECT_OK(tutti_run_with_deadline(g, start_sum, &values[1], 0, NULL, &e));
    }
    EXPECT(values[0] == 2 && values[1] == 2);
    EXPECT_USABLE(g);
}

static tutti_status rank(tutti_group *g, void *user)
{
    struct scene *scenes = user;
    results(g);
    causes(g);
    if (tutti_group_rank(g) == 0) {
        bad_arguments(g);
    }
    in_a_callback(g);
    for (int i = 0; i < 20; i++) {
        limit(g, &scenes[4 * i]);
        token(g, &scenes[4 * i + 1]);
        one_cannot_start(g, &scenes[4 * i + 2]);
        destroyed_token(g, &scenes[4 * i + 3]);
    }
    return TUTTI_OK;
}

int main(void)
{
    static struct scene scenes[80];
    tutti_error e;
    setenv("TUTTI_LANES", "2", 1);
    const tutti_status status = tutti_run_threads(RANKS, rank, scenes, &e);
    test_status(__FILE__, __LINE__, "tutti_run_threads", status, TUTTI_OK, status == TUTTI_OK ? NULL : &e, "");
    return test_result();
}
