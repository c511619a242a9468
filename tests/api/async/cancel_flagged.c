/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling on an engine without cancelling, as MPI and NCCL are. The engine here is `local` behind a table without
 * capabilities, which refuses an operation that is marked as failed. The core cancels operations that have the flag
 * TUTTI_CANCELLABLE on every rank. Any other cancel is UNSUPPORTED, at the start or as the status of the cancel.
 */
#include <stdatomic.h>
#include <string.h>

#include "api/async/synchronous_local.h"
#include "api/messages/messages_async.h"

enum { RANKS = 3, CANCELLER = 1, LATE = 2 };

static const tutti_backend_ops *inner;
static tutti_backend_ops plain_ops;
static tutti_backend plain;
static atomic_int asked_in_vain; /* failed operations that the engine got */

static tutti_status plain_run(void *state, tutti_op *op, tutti_error *error)
{
    if (op->failed != TUTTI_OK) {
        atomic_fetch_add(&asked_in_vain, 1);
    }
    return inner->run(state, op, error);
}

static uint32_t plain_capabilities(void *state)
{
    (void)state;
    return 0;
}

static void make_plain(void)
{
    inner = synchronous_local("plain", plain_run, &plain, &plain_ops);
    plain_ops.capabilities = plain_capabilities;
    tutti_error e;
    EXPECT_OK(tutti_backend_register(&plain, &e));
}

/* All ranks: an operation that the late rank holds up, and one behind it, which is cancelled there. */
static void cancelled_behind(tutti_group *g, bool by_token, _Atomic int *cancelled)
{
    const int32_t rank = tutti_group_rank(g);
    int32_t first[2] = {rank, 1};
    int32_t second[2] = {rank, 1};
    const int64_t two = 2;
    DLTensor t[2] = {tutti_tensor_1d(first, &two, TUTTI_I32), tutti_tensor_1d(second, &two, TUTTI_I32)};
    tutti_work *work[2] = {NULL, NULL};
    tutti_cancel_token *token = NULL;
    tutti_error e;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    if (rank == LATE) {
        EXPECT(reaches(cancelled, 1));
    }
    EXPECT_OK(tutti_all_reduce_async(g, &t[0], &t[0], TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS), &work[0]));
    EXPECT_OK(tutti_all_reduce_async(
        g, &t[1], &t[1], TUTTI_SUM,
        TUTTI_CALL(.timeout_ms = LONG_MS, .flags = TUTTI_CANCELLABLE, .token = by_token ? token : NULL), &work[1]));
    if (rank == CANCELLER) {
        int64_t began = 7;
        EXPECT_OK(by_token ? tutti_cancel_token_cancel(token, &began, &e) : tutti_work_cancel(work[1], &e));
        EXPECT(!by_token || began == 0);
        reach(cancelled);
    }
    EXPECT_OK(tutti_work_wait(work[0], TUTTI_FOREVER));
    EXPECT(first[0] == 0 + 1 + 2 && first[1] == RANKS);
    EXPECT(tutti_work_wait(work[1], TUTTI_FOREVER) == TUTTI_CANCELLED);
    EXPECT_OK(tutti_work_error(work[1], &e));
    EXPECT(e.suspect == CANCELLER && strstr(e.message, "cancelled by rank 1"));
    EXPECT(second[0] == rank && second[1] == 1);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_work_release(work[i]));
    }
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
}

/* Without the flag a cancel is UNSUPPORTED. */
static void refused(tutti_group *g)
{
    const int32_t rank = tutti_group_rank(g);
    int32_t value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_cancel_token *token = NULL;
    tutti_work *work = NULL;
    tutti_error e;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.token = token, .error = &e), &work) ==
           TUTTI_UNSUPPORTED);
    EXPECT(work == NULL && strstr(e.message, "TUTTI_CANCELLABLE"));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS), &work));
    EXPECT(tutti_work_cancel(work, &e) == TUTTI_UNSUPPORTED && strstr(e.message, "TUTTI_CANCELLABLE"));
    land(work, TUTTI_OK);
    EXPECT(value == RANKS);
    /* the flag costs a round, and changes nothing else */
    value = rank;
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS, .flags = TUTTI_CANCELLABLE)));
    EXPECT(value == 0 + 1 + 2);
}

static _Atomic int cancelled_by_work;
static _Atomic int cancelled_by_token;

static tutti_status on_plain(tutti_group *world, void *user)
{
    const int32_t ranks[RANKS] = {0, 1, 2};
    tutti_group *g = NULL;
    tutti_error e;
    (void)user;
    EXPECT_OK(tutti_group_create(world, ranks, RANKS, TUTTI_CONFIG(.backend = "plain"), &g, &e));
    EXPECT(tutti_group_capabilities(g) == TUTTI_CAP_CANCEL_FLAGGED);
    cancelled_behind(g, false, &cancelled_by_work);
    cancelled_behind(g, true, &cancelled_by_token);
    refused(g);
    EXPECT_OK(tutti_group_destroy(g, &e));
    return TUTTI_OK;
}

/* ---- a group of one rank: the callback of one operation holds the lane for the next */

struct alone {
    tutti_group *group;
    tutti_work *next;
    _Atomic int done;
};

static void cancel_next(tutti_status status, const tutti_error *error, void *user)
{
    struct alone *a = user;
    (void)error;
    EXPECT_OK(status);
    EXPECT_OK(tutti_barrier_async(a->group, NULL, &a->next));
    EXPECT_OK(tutti_work_cancel(a->next, NULL));
    reach(&a->done);
}

static tutti_status on_one(tutti_group *world, void *user)
{
    const int32_t rank = 0;
    struct alone a = {.group = NULL};
    tutti_work *work = NULL;
    tutti_error e;
    (void)user;
    EXPECT_OK(tutti_group_create(world, &rank, 1, TUTTI_CONFIG(.backend = "plain"), &a.group, &e));
    EXPECT(tutti_group_capabilities(a.group) == (TUTTI_CAP_CANCEL | TUTTI_CAP_CANCEL_FLAGGED));
    EXPECT_OK(tutti_barrier_async(a.group, TUTTI_CALL(.callback = cancel_next, .user = &a), &work));
    land(work, TUTTI_OK);
    EXPECT(reaches(&a.done, 1));
    land(a.next, TUTTI_CANCELLED);
    EXPECT_OK(tutti_group_destroy(a.group, &e));
    return TUTTI_OK;
}

int main(void)
{
    tutti_error e;
    make_plain();
    EXPECT_OK(tutti_run_threads(RANKS, on_plain, NULL, &e));
    EXPECT_OK(tutti_run_threads(1, on_one, NULL, &e));
    EXPECT(atomic_load(&asked_in_vain) == 0);
    EXPECT_OK(tutti_finalize(&e));
    return test_result();
}
