/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines hold while a callback runs. It keeps the lane, and the thread that would end other operations or messages.
 * One engine is `local` behind a table that counts aborts.
 */
#include <sched.h>
#include <stdbool.h>

#include "api/async/synchronous_local.h"
#include "api/async/work_end.h"
#include "api/check.h"
#include "clock.h"

enum { RANKS = 2, DEADLINE_MS = 30 };

static const tutti_backend_ops *inner;
static _Atomic int aborts;

static tutti_status run(void *state, tutti_op *op, tutti_error *error)
{
    return inner->run(state, op, error);
}

static void count_abort(void *state, int32_t lane, const tutti_error *cause)
{
    inner->abort(state, lane, cause);
    atomic_fetch_add(&aborts, 1);
}

/* What rank 0 shares with its callback. */
struct scene {
    tutti_group *group;
    _Atomic int inside;
};

static bool fires(tutti_cancel_token *token)
{
    const int64_t end = now_ms() + 1000 * LIMIT_S;
    int32_t fired = 0;
    while (!fired && now_ms() < end) {
        EXPECT_OK(tutti_cancel_token_fired(token, &fired));
        sched_yield();
    }
    return fired != 0;
}

static bool fails(tutti_group *g)
{
    const int64_t end = now_ms() + 1000 * LIMIT_S;
    tutti_error e = {.status = TUTTI_OK};
    while (e.status == TUTTI_OK && now_ms() < end) {
        EXPECT_OK(tutti_group_error(g, &e));
        sched_yield();
    }
    return e.status == TUTTI_TIMEOUT;
}

/* The timers of the process go on after the group has been aborted. */
static void hold_lane(tutti_status status, const tutti_error *error, void *user)
{
    struct scene *s = user;
    tutti_cancel_token *token = NULL;
    tutti_error e;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    atomic_store(&s->inside, 1);
    EXPECT(await_count(&aborts, 1));
    EXPECT_OK(tutti_cancel_token_create(NULL, 1, &token, &e));
    EXPECT(fires(token));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
}

/* No other rank is late, so all suspect rank 0, whose callback keeps the lane. Its own error says so once. */
static void expect_own_delay(const tutti_error *e, const char *words)
{
    const char *found = strstr(e->message, words);
    EXPECT(e->suspect == 0 && e->elapsed_ms >= DEADLINE_MS && e->scope == TUTTI_SCOPE_GROUP);
    EXPECT(found && !strstr(found + 1, words));
}

/* The group fails, although the lane does not reach the operation that is overdue. */
static void behind_callback(tutti_group *world)
{
    struct scene s = {.inside = 0};
    tutti_error e;
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    EXPECT_OK(
        tutti_group_create(world, (const int32_t[]){0, 1}, RANKS, TUTTI_CONFIG(.backend = "counts"), &s.group, &e));
    if (tutti_group_rank(world) == 1) {
        EXPECT_OK(tutti_barrier(s.group, TUTTI_CALL(.timeout_ms = LONG_MS)));
        EXPECT(fails(s.group));
    } else {
        EXPECT_OK(
            tutti_barrier_async(s.group, TUTTI_CALL(.callback = hold_lane, .user = &s, .timeout_ms = LONG_MS), &first));
        EXPECT(await_count(&s.inside, 1));
        EXPECT_OK(tutti_barrier_async(s.group, TUTTI_CALL(.timeout_ms = DEADLINE_MS), &second));
        EXPECT(tutti_work_wait(second, TUTTI_FOREVER) == TUTTI_TIMEOUT);
        EXPECT_OK(tutti_work_error(second, &e));
        expect_own_delay(&e, "rank 0");
        EXPECT(atomic_load(&aborts) == 1);
        EXPECT(end(first) == TUTTI_OK);
        EXPECT_OK(tutti_work_release(second));
    }
    EXPECT_OK(tutti_group_error(s.group, &e));
    expect_own_delay(&e, "rank 0");
    EXPECT_OK(tutti_group_destroy(s.group, &e));
}

static void hold_until_failure(tutti_status status, const tutti_error *error, void *user)
{
    struct scene *s = user;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    atomic_store(&s->inside, 1);
    EXPECT(fails(s->group));
}

/* The same for a synchronous call. */
static void call_behind_callback(tutti_group *world)
{
    struct scene s = {.inside = 0};
    tutti_error e;
    tutti_work *first = NULL;
    EXPECT_OK(tutti_group_create(world, (const int32_t[]){0, 1}, RANKS, NULL, &s.group, &e));
    if (tutti_group_rank(world) == 1) {
        EXPECT_OK(tutti_barrier(s.group, TUTTI_CALL(.timeout_ms = LONG_MS)));
        EXPECT(fails(s.group));
    } else {
        EXPECT_OK(tutti_barrier_async(
            s.group, TUTTI_CALL(.callback = hold_until_failure, .user = &s, .timeout_ms = LONG_MS), &first));
        EXPECT(await_count(&s.inside, 1));
        EXPECT_ERROR(&e, TUTTI_TIMEOUT, "behind other operations of rank 0",
                     tutti_barrier(s.group, TUTTI_CALL(.timeout_ms = DEADLINE_MS, .error = &e)));
        expect_own_delay(&e, "rank 0");
        EXPECT(end(first) == TUTTI_OK);
    }
    EXPECT_OK(tutti_group_error(s.group, &e));
    expect_own_delay(&e, "rank 0");
    EXPECT_OK(tutti_group_destroy(s.group, &e));
}

static void expect_timeout(tutti_status status, const tutti_error *error, void *user)
{
    EXPECT(status == TUTTI_TIMEOUT && error->suspect == 1);
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* A message that rank 1 does not send, while the worker is in the callback of another message. No thread waits. */
static void message_beside_callback(tutti_group *world, bool with_callback)
{
    struct scene s = {.inside = 0};
    const int64_t one = 1;
    int32_t values[2] = {0, 0};
    DLTensor t[2] = {tutti_tensor_1d(&values[0], &one, TUTTI_I32), tutti_tensor_1d(&values[1], &one, TUTTI_I32)};
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    _Atomic int calls = 0;
    tutti_error e;
    EXPECT_OK(tutti_group_create(world, (const int32_t[]){0, 1}, RANKS, NULL, &s.group, &e));
    if (tutti_group_rank(world) == 1) {
        EXPECT_OK(tutti_send(s.group, &t[0], 0, 1, TUTTI_CALL(.timeout_ms = LONG_MS)));
        EXPECT(fails(s.group));
    } else {
        tutti_call call = *TUTTI_CALL(.callback = hold_until_failure, .user = &s, .timeout_ms = LONG_MS);
        EXPECT_OK(tutti_recv_async(s.group, &t[0], 1, 1, &call, NULL, &first));
        EXPECT(await_count(&s.inside, 1));
        call = *TUTTI_CALL(.timeout_ms = DEADLINE_MS, .callback = with_callback ? expect_timeout : NULL,
                           .user = (void *)&calls);
        EXPECT_OK(tutti_recv_async(s.group, &t[1], 1, 2, &call, NULL, &second));
        EXPECT(fails(s.group));
        EXPECT(end(second) == TUTTI_TIMEOUT && atomic_load(&calls) == with_callback);
        EXPECT(end(first) == TUTTI_OK);
    }
    EXPECT_OK(tutti_group_error(s.group, &e));
    EXPECT(e.suspect == 1 && e.elapsed_ms >= DEADLINE_MS);
    EXPECT_OK(tutti_group_destroy(s.group, &e));
}

static tutti_status rank(tutti_group *world, void *user)
{
    (void)user;
    behind_callback(world);
    call_behind_callback(world);
    message_beside_callback(world, false);
    message_beside_callback(world, true);
    return TUTTI_OK;
}

int main(void)
{
    static tutti_backend_ops ops;
    static tutti_backend counts;
    tutti_error e;
    inner = synchronous_local("counts", run, &counts, &ops);
    ops.abort = count_abort;
    EXPECT_OK(tutti_backend_register(&counts, &e));
    EXPECT_OK(tutti_run_threads(RANKS, rank, NULL, &e));
    EXPECT_OK(tutti_finalize(&e));
    return test_result();
}
