/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting and waiting in one call: results, causes, tokens, and the other operations when one cannot be started. */
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "api/check.h"
#include "start_functions.h"

#define RANKS 2
#define MANY  50

static tutti_status fail_without_words(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)user;
    (void)work;
    return TUTTI_NOT_FOUND;
}

static tutti_status forget_the_work(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)user;
    (void)work;
    return TUTTI_OK;
}

static tutti_status count_calls(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)work;
    (*(int *)user)++;
    return TUTTI_INTERNAL;
}

static void results(tutti_group *g)
{
    tutti_error e;
    static int32_t values[RANKS][MANY];
    tutti_start operations[MANY];
    int32_t me = tutti_group_rank(g);
    int32_t value = me + 1;
    EXPECT_OK(tutti_run_with_deadline(g, start_sum, &value, 0, NULL, &e));
    EXPECT(value == 3 && e.size == sizeof(e) && e.status == TUTTI_OK);
    EXPECT_OK(tutti_run_with_deadline(g, start_sum_beside, &value, 60000, NULL, NULL));
    EXPECT(value == 6);
    for (int i = 0; i < MANY; i++) {
        values[me][i] = me + i;
        operations[i] = (tutti_start){.start = i % 3 == 0 ? start_sum_beside : start_sum, .user = &values[me][i]};
    }
    EXPECT_OK(tutti_run_all_with_deadline(g, operations, MANY, TUTTI_FOREVER, NULL, &e));
    EXPECT(e.size == sizeof(e) && e.status == TUTTI_OK);
    for (int i = 0; i < MANY; i++) {
        EXPECT(values[me][i] == 2 * i + 1);
    }
    EXPECT_OK(tutti_run_all_with_deadline(g, NULL, 0, 0, NULL, &e));
}

/* The sentence names the place; the other fields are those of the cause. */
static void causes(tutti_group *g)
{
    tutti_error e;
    int32_t value = 1;
    const char *own = "run_with_deadline: all_reduce: ";
    EXPECT_ERROR(&e, TUTTI_MISMATCH, own, tutti_run_with_deadline(g, start_mismatch, &value, 30000, NULL, &e));
    EXPECT(strncmp(e.message, own, strlen(own)) == 0 && !strstr(e.message + strlen(own), "all_reduce: "));
    EXPECT(e.operation == TUTTI_OP_ALL_REDUCE && e.rank == tutti_group_rank(g) && e.sequence > 0);
    EXPECT(e.deadline_ms == 30000 && strcmp(e.backend, "local") == 0);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, own, tutti_run_with_deadline(g, fail_to_start, NULL, 30000, NULL, &e));
    EXPECT(strstr(e.message, "input") && e.rank == tutti_group_rank(g));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "run_with_deadline: the start function returned NOT_FOUND",
                 tutti_run_with_deadline(g, fail_without_words, NULL, 0, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "no work", tutti_run_with_deadline(g, forget_the_work, NULL, 0, NULL, &e));
    EXPECT_USABLE(g);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "cannot be waited for",
                 tutti_run_with_deadline(g, start_and_release, &value, 0, NULL, &e));
    EXPECT_USABLE(g);
    tutti_start operations[] = {
        {start_sum, &value}, {start_mismatch, &value}, {start_sum, &value}, {start_mismatch, &value}};
    value = 1;
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "run_all_with_deadline: operations[1]: all_reduce: ",
                 tutti_run_all_with_deadline(g, operations, 4, 0, NULL, &e));
    EXPECT_USABLE(g);
}

/* An operation with a handle that other threads may read. */
struct shown {
    int32_t value;
    _Atomic(tutti_work *) work;
};

static tutti_status start_shown(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct shown *s = user;
    tutti_status status = start_sum(g, call, &s->value, work);
    atomic_store(&s->work, status == TUTTI_OK ? *work : NULL);
    return status;
}

/* Whether its handle has been released. */
static bool is_stale(struct shown *s)
{
    int32_t ended;
    return tutti_work_test(atomic_load(&s->work), &ended) == TUTTI_BAD_STATE;
}

static void wait_until_cancelled(struct shown *s)
{
    int32_t cancelled = 0;
    time_t limit = time(NULL) + 30;
    while (!cancelled && time(NULL) < limit) {
        tutti_work *work = atomic_load(&s->work);
        if (work) {
            EXPECT_OK(tutti_work_cancelled(work, &cancelled));
        }
        sched_yield();
    }
    EXPECT(cancelled == 1);
}

/* Rank 0 cannot start its third operation while the first two are queued in their lane. It cancels them, and rank 1
 * gets the error when it reaches them. */
static void one_cannot_start(tutti_group *g)
{
    static struct shown shown[2];
    tutti_error e;
    tutti_work *before = NULL;
    int calls = 0;
    if (tutti_group_rank(g) == 0) {
        tutti_start operations[] = {
            {start_shown, &shown[0]}, {start_shown, &shown[1]}, {fail_to_start, NULL}, {count_calls, &calls}};
        EXPECT_OK(tutti_barrier_async(g, NULL, &before));
        EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "run_all_with_deadline: operations[2]: all_reduce: ",
                     tutti_run_all_with_deadline(g, operations, 4, 0, NULL, &e));
        EXPECT(calls == 0 && is_stale(&shown[0]) && is_stale(&shown[1]));
        EXPECT_OK(tutti_work_wait(before, TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(before));
        atomic_store(&shown[0].work, NULL);
        atomic_store(&shown[1].work, NULL);
    } else {
        int32_t value = 1;
        wait_until_cancelled(&shown[1]);
        EXPECT_OK(tutti_barrier(g, NULL));
        for (int i = 0; i < 2; i++) {
            EXPECT_ERROR(&e, TUTTI_CANCELLED, "rank 0", tutti_run_with_deadline(g, start_sum, &value, 0, NULL, &e));
        }
    }
    EXPECT_USABLE(g);
}

/* A start that fails when the operation before has ended. */
static tutti_status wait_and_fail(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)work;
    tutti_work *before = atomic_load(&((struct shown *)user)->work);
    EXPECT(tutti_work_wait(before, TUTTI_FOREVER) == TUTTI_MISMATCH);
    return TUTTI_NOT_FOUND;
}

static tutti_status start_shown_mismatch(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct shown *s = user;
    tutti_status status = start_mismatch(g, call, &s->value, work);
    atomic_store(&s->work, *work);
    return status;
}

/* The end of an earlier operation is more precise than the start that failed after it. */
static void earlier_errors_come_first(tutti_group *g)
{
    tutti_error e;
    struct shown shown = {.value = 1};
    tutti_start operations[] = {{start_shown_mismatch, &shown}, {wait_and_fail, &shown}};
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "operations[0]: ", tutti_run_all_with_deadline(g, operations, 2, 0, NULL, &e));
    EXPECT(is_stale(&shown));
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "", tutti_run_with_deadline(g, start_shown_mismatch, &shown, 0, NULL, &e));
    EXPECT(is_stale(&shown));
    EXPECT_USABLE(g);
}

struct firing {
    tutti_cancel_token *token;
    int32_t value;
};

/* Starts, and fires the token while the operation is under way or waiting. */
static tutti_status start_and_fire(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct firing *f = user;
    tutti_status status = start_sum(g, call, &f->value, work);
    if (tutti_group_rank(g) == 0) {
        EXPECT_OK(tutti_cancel_token_cancel(f->token, NULL, NULL));
    }
    return status;
}

static void tokens(tutti_group *g)
{
    tutti_error e;
    tutti_cancel_token *token = NULL;
    int32_t value = 1;
    EXPECT_OK(tutti_cancel_token_create(NULL, 0, &token, &e));
    EXPECT_ERROR(&e, TUTTI_CANCELLED,
                 "run_with_deadline: ", tutti_run_with_deadline(g, start_sum, &value, 0, token, &e));
    tutti_start refused[] = {{start_sum, &value}, {start_sum, &value}};
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "operations[0]", tutti_run_all_with_deadline(g, refused, 2, 0, token, &e));
    EXPECT(value == 1);
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    /* whether it had begun or not, all ranks get the same end, and none returns before it */
    struct firing f = {.token = token, .value = 1};
    tutti_status status = tutti_run_with_deadline(g, start_and_fire, &f, 0, token, &e);
    EXPECT(status == TUTTI_OK ? f.value == RANKS : status == TUTTI_CANCELLED);
    int32_t ends[RANKS] = {-1, -1};
    DLTensor all = tutti_tensor_1d(ends, &(int64_t){RANKS}, TUTTI_I32);
    DLTensor own = tutti_tensor_1d(&status, &start_one, TUTTI_I32);
    EXPECT_OK(tutti_all_gather(g, &own, &all, 0, NULL));
    EXPECT(ends[0] == ends[1]);
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_USABLE(g);
}

/* Last, because the group fails: operations that the peer never joins. */
static _Atomic int deadline_over;

static void deadlines(tutti_group *g)
{
    tutti_error e;
    int32_t values[2] = {1, 1};
    tutti_start operations[] = {{start_sum, &values[0]}, {start_sum, &values[1]}};
    if (tutti_group_rank(g) == 1) {
        while (atomic_load(&deadline_over) == 0) {
            sched_yield();
        }
        return;
    }
    /* The first one names the missing rank. On a busy machine the deadline of the second one may be noticed before:
     * then the first is REVOKED as a consequence. */
    EXPECT_ERROR(&e, TUTTI_TIMEOUT, "]: all_reduce: ", tutti_run_all_with_deadline(g, operations, 2, 50, NULL, &e));
    EXPECT(e.deadline_ms == 50 && e.elapsed_ms > 0 && (e.suspect == 1 || strstr(e.message, "operations[1]: ")));
    EXPECT_ERROR(&e, TUTTI_REVOKED,
                 "run_with_deadline: barrier: ", tutti_run_with_deadline(g, start_barrier, NULL, 0, NULL, &e));
    atomic_store(&deadline_over, 1);
}

/* Starts without the options that it is given. */
struct careless {
    tutti_call call;
    int32_t value;
    tutti_work *_Atomic work;
};

static tutti_status start_carelessly(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct careless *c = user;
    (void)call;
    tutti_status status = start_sum(g, c->call.size ? &c->call : NULL, &c->value, work);
    atomic_store(&c->work, status == TUTTI_OK ? *work : NULL);
    return status;
}

static void expect_given_back(struct careless *c)
{
    int32_t ended;
    EXPECT(c->value == RANKS || c->value == 1); /* the operation has ended, or a rank has cancelled it in time */
    EXPECT(tutti_work_test(atomic_load(&c->work), &ended) == TUTTI_BAD_STATE);
    c->value = 1;
}

static tutti_status start_with_child(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    tutti_call options = *call;
    options.timeout_ms = 20000;
    options.token = ((struct firing *)user)->token;
    options.operation_id = 7;
    return start_sum(g, &options, &((struct firing *)user)->value, work);
}

/* A start function that drops the deadline or the token gets an error, and its operation has ended by then. */
static void start_functions_pass_on(tutti_group *g)
{
    tutti_error e;
    tutti_cancel_token *token = NULL;
    struct careless c = {.value = 1};
    int32_t value = 1;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "run_with_deadline: the start function has not passed on the call options",
                 tutti_run_with_deadline(g, start_carelessly, &c, 30000, NULL, &e));
    EXPECT(strstr(e.message, "a deadline of ") && strstr(e.message, "instead of 30000 ms"));
    EXPECT(strstr(e.message, "has been waited for") && e.rank == tutti_group_rank(g));
    expect_given_back(&c);
    tutti_call_init(&c.call);
    c.call.timeout_ms = TUTTI_FOREVER;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "a deadline of -1 ms instead of 30000 ms",
                 tutti_run_with_deadline(g, start_carelessly, &c, 30000, NULL, &e));
    expect_given_back(&c);
    tutti_start operations[] = {{start_sum, &value}, {start_carelessly, &c}, {start_sum, &value}};
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "run_all_with_deadline: operations[1]: the start function has not passed",
                 tutti_run_all_with_deadline(g, operations, 3, 30000, NULL, &e));
    EXPECT(value == RANKS || value == 1); /* likewise; the third one was not started */
    expect_given_back(&c);
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "its operation has no token instead of the one that was given",
                 tutti_run_with_deadline(g, start_carelessly, &c, 0, token, &e));
    expect_given_back(&c);
    value = 1;
    /* no option was given that could be dropped */
    EXPECT_OK(tutti_run_with_deadline(g, start_carelessly, &c, 0, NULL, &e));
    EXPECT_OK(tutti_run_with_deadline(g, start_carelessly, &c, TUTTI_FOREVER, NULL, &e));
    /* a start function may give a shorter deadline, a token below, and a number of its own */
    struct firing f = {.value = 1};
    EXPECT_OK(tutti_cancel_token_create(token, TUTTI_FOREVER, &f.token, &e));
    EXPECT_OK(tutti_run_with_deadline(g, start_with_child, &f, 30000, token, &e));
    struct firing above = {.token = token, .value = 1};
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "its operation has another token instead of the one that was given",
                 tutti_run_with_deadline(g, start_with_child, &above, 30000, f.token, &e));
    EXPECT_OK(tutti_cancel_token_destroy(f.token, &e));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_USABLE(g);
}

static tutti_status start_elsewhere(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    static int32_t values[RANKS];
    return start_mismatch(user, call, &values[tutti_group_rank(user)], work);
}

/* The cause of a failed operation is more precise than the revocation of an earlier one. `g` has failed, `other` has
 * not. */
static void revoked_comes_last(tutti_group *g, tutti_group *other)
{
    tutti_error e;
    tutti_start operations[] = {{start_barrier, NULL}, {start_elsewhere, other}, {start_barrier, NULL}};
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "operations[1]: ", tutti_run_all_with_deadline(g, operations, 3, 0, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_REVOKED, "operations[0]: ", tutti_run_all_with_deadline(g, operations, 1, 0, NULL, &e));
    EXPECT_USABLE(other);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *other = NULL;
    EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, RANKS, NULL, &other, &e));
    results(g);
    causes(g);
    for (int i = 0; i < 20; i++) {
        one_cannot_start(g);
        earlier_errors_come_first(g);
        tokens(g);
    }
    start_functions_pass_on(g);
    deadlines(g);
    revoked_comes_last(g, other);
    EXPECT_OK(tutti_group_destroy(other, &e));
    return TUTTI_OK;
}

int main(void)
{
    setenv("TUTTI_LANES", "2", 1);
    test_ranks(RANKS, rank);
    return test_result();
}
