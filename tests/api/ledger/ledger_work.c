/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/*
 * Asynchronous collectives with their results, the handle, cancellation, tokens, deadlines, and several threads at
 * once. Where an operation must be under way, rank 1 joins it only after rank 0 has released it.
 */
#include "ledger_support.h"
#include "time_limits.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

enum { STARTED, HANDLE, CANCEL, TOKEN, LIMIT, LATE };
enum { RANKS = 2, LANES = 3, ROUNDS = 50, LATE_MS = 50 };

static const int64_t one = 1;
static const int64_t two = 2;
static const int64_t four = 4;

/* ---- every collective -------------------------------------------------------------------------------------------- */

static void reductions(tutti_group *g, int32_t rank)
{
    const int64_t counts[RANKS] = {1, 1};
    int32_t in[2] = {rank + 1, 10 * (rank + 1)};
    int32_t out[2] = {0, 0};
    DLTensor input = ledger_tensor(in, &two, TUTTI_I32);
    DLTensor output = ledger_tensor(out, &two, TUTTI_I32);
    DLTensor part = ledger_tensor(out, &one, TUTTI_I32);
    tutti_work *work = NULL;
    EXPECT(tutti_all_reduce_async(g, &input, &output, TUTTI_SUM, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && out[0] == 3 && out[1] == 30);
    memset(out, 0, sizeof(out));
    EXPECT(tutti_reduce_async(g, &input, &output, TUTTI_MAX, 1, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && out[0] == 2 * rank && out[1] == 20 * rank);
    EXPECT(tutti_reduce_scatter_async(g, &input, &part, TUTTI_SUM, 0, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && out[0] == (rank == 0 ? 3 : 30));
    EXPECT(tutti_reduce_scatter_v_async(g, &input, &part, TUTTI_PRODUCT, 0, counts, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && out[0] == (rank == 0 ? 2 : 200));
}

static void movements(tutti_group *g, int32_t rank)
{
    const int64_t counts[RANKS] = {2, 2};
    const int64_t ones[RANKS] = {1, 1};
    int32_t mine[2] = {10 * rank, 10 * rank + 1};
    int32_t all[4] = {0, 0, 0, 0};
    const int32_t joined[4] = {0, 1, 10, 11};
    DLTensor part = ledger_tensor(mine, &two, TUTTI_I32);
    DLTensor whole = ledger_tensor(all, &four, TUTTI_I32);
    tutti_work *work = NULL;
    EXPECT(tutti_all_gather_async(g, &part, &whole, 0, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && memcmp(all, joined, sizeof(all)) == 0);
    memset(all, 0, sizeof(all));
    EXPECT(tutti_all_gather_v_async(g, &part, &whole, 0, counts, NULL, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && memcmp(all, joined, sizeof(all)) == 0);
    memset(all, 0, sizeof(all));
    EXPECT(tutti_gather_async(g, &part, &whole, 0, 1, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && all[3] == 11 * rank);
    memset(mine, 0, sizeof(mine));
    EXPECT(tutti_scatter_async(g, &whole, &part, 0, 1, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && mine[0] == 10 * rank && mine[1] == 10 * rank + 1);

    int32_t got[2] = {-1, -1};
    DLTensor other = ledger_tensor(got, &two, TUTTI_I32);
    EXPECT(tutti_all_to_all_async(g, &part, &other, 0, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && got[0] == rank && got[1] == 10 + rank);
    memset(got, 0, sizeof(got));
    EXPECT(tutti_all_to_all_v_async(g, &part, &other, 0, ones, NULL, ones, NULL, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && got[0] == rank && got[1] == 10 + rank);
    EXPECT(tutti_broadcast_async(g, &part, 1, NULL, &work) == TUTTI_OK);
    EXPECT(ledger_end(&work) == TUTTI_OK && mine[0] == 10 && mine[1] == 11);
}

/* No rank's barrier ends before all ranks have started theirs. */
static void barriers(tutti_group *g)
{
    for (int round = 1; round <= ROUNDS; round++) {
        tutti_work *work = NULL;
        atomic_fetch_add(ledger_flag(STARTED), 1);
        EXPECT(tutti_barrier_async(g, NULL, &work) == TUTTI_OK);
        EXPECT(ledger_end(&work) == TUTTI_OK && atomic_load(ledger_flag(STARTED)) >= round * RANKS);
    }
}

/* ---- the handle -------------------------------------------------------------------------------------------------- */

static void count_call(tutti_status status, const tutti_error *error, void *user)
{
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    atomic_fetch_add((atomic_int *)user, 1);
}

/* The state of an operation on rank 0 before rank 1 has joined it. Then rank 0 releases rank 1. */
static void under_way(tutti_work *work, atomic_int *calls, atomic_int *go)
{
    int32_t ended = -1;
    int fd = -1;
    tutti_error e;
    DLTensor view;
    EXPECT(tutti_work_test(work, &ended) == TUTTI_OK && ended == 0);
    EXPECT(tutti_work_wait(work, 0) == TUTTI_BUSY);
    EXPECT(tutti_work_wait(work, 1) == TUTTI_BUSY);
    EXPECT(tutti_work_error(work, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_work_eventfd(work, &fd, &e) == TUTTI_OK);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    EXPECT(poll(&p, 1, 0) == 0);
    EXPECT(atomic_load(calls) == 0);
    atomic_store(go, 1);
    EXPECT(fd >= 0 && poll(&p, 1, LONG_MS) == 1);
}

static void handle(tutti_group *g, int32_t rank)
{
    atomic_int calls = 0;
    int32_t value = rank + 1;
    int32_t ended = -1;
    tutti_error e;
    DLTensor view;
    DLTensor t = ledger_tensor(&value, &one, TUTTI_I32);
    tutti_work *work = NULL;
    if (rank == 1) {
        EXPECT(await_count(ledger_flag(HANDLE), 1));
    }
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM,
                                  TUTTI_CALL(.flags = ledger_cancellable(g), .callback = count_call, .user = &calls),
                                  &work) == TUTTI_OK);
    if (rank == 0) {
        under_way(work, &calls, ledger_flag(HANDLE));
    }
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_OK && value == 3 && atomic_load(&calls) == 1);
    EXPECT(tutti_work_wait(work, 0) == TUTTI_OK);
    EXPECT(tutti_work_test(work, &ended) == TUTTI_OK && ended == 1);
    memset(&e, 0x55, sizeof(e));
    EXPECT(tutti_work_error(work, &e) == TUTTI_OK && e.status == TUTTI_OK && e.size == sizeof(e));
    memset(&view, 0, sizeof(view));
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_OK && view.data == &value && view.ndim == 1);
    EXPECT(tutti_work_cancel(work, &e) == TUTTI_TOO_LATE);
    EXPECT(tutti_work_release(work) == TUTTI_OK);
    EXPECT(tutti_work_test(work, &ended) == TUTTI_BAD_STATE);
    EXPECT(tutti_work_release(work) == TUTTI_BAD_STATE);
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
}

/* No result: the operation has no output, or it has failed. */
static void no_result(tutti_group *g, int32_t rank)
{
    int32_t value = 0;
    tutti_error e;
    DLTensor view;
    DLTensor t = ledger_tensor(&value, &one, rank == 0 ? TUTTI_I32 : TUTTI_F32);
    tutti_work *work = NULL;
    EXPECT(tutti_barrier_async(g, NULL, &work) == TUTTI_OK);
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_OK);
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_NOT_FOUND);
    EXPECT(ledger_end(&work) == TUTTI_OK);
    EXPECT(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &work) == TUTTI_OK);
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_MISMATCH);
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_MISMATCH);
    EXPECT(tutti_work_error(work, &e) == TUTTI_OK && e.status == TUTTI_MISMATCH && e.rank == rank);
    EXPECT(strstr(e.message, "all_reduce") != NULL);
    EXPECT(ledger_end(&work) == TUTTI_MISMATCH);
}

/* ---- cancellation ------------------------------------------------------------------------------------------------ */

/* Rank 0 cancels an operation that is queued: it ends as cancelled on both ranks, and no memory is written. */
static void cancelling(tutti_group *g, int32_t rank)
{
    int32_t in = 1;
    int32_t out = -1;
    int32_t cancelled = -1;
    tutti_error e;
    DLTensor input = ledger_tensor(&in, &one, TUTTI_I32);
    DLTensor output = ledger_tensor(&out, &one, TUTTI_I32);
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    EXPECT(ledger_promises(g, TUTTI_CAP_CANCEL_FLAGGED));
    if (rank == 1) {
        EXPECT(await_count(ledger_flag(CANCEL), 1));
    }
    EXPECT(ledger_start_held(g, &first) == TUTTI_OK);
    EXPECT(tutti_all_reduce_async(g, &input, &output, TUTTI_SUM, TUTTI_CALL(.flags = ledger_cancellable(g)), &second) ==
           TUTTI_OK);
    if (rank == 0) {
        EXPECT(tutti_work_cancelled(second, &cancelled) == TUTTI_OK && cancelled == 0);
        tutti_status status = tutti_work_cancel(first, &e);
        EXPECT(status == TUTTI_TOO_LATE || (ledger_is_job() && status == TUTTI_UNSUPPORTED));
        EXPECT(tutti_work_cancel(second, &e) == TUTTI_OK);
        EXPECT(tutti_work_cancelled(second, &cancelled) == TUTTI_OK && cancelled == 1);
        atomic_store(ledger_flag(CANCEL), 1);
    }
    EXPECT(ledger_end(&first) == TUTTI_OK);
    EXPECT(tutti_work_wait(second, TUTTI_FOREVER) == TUTTI_CANCELLED && out == -1);
    EXPECT(tutti_work_cancelled(second, &cancelled) == TUTTI_OK && cancelled == 1);
    EXPECT(tutti_work_error(second, &e) == TUTTI_OK && e.status == TUTTI_CANCELLED && e.suspect == 0);
    EXPECT(ledger_end(&second) == TUTTI_CANCELLED);
    EXPECT(tutti_barrier(g, NULL) == TUTTI_OK);
}

static tutti_status start_sum(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    DLTensor t = ledger_tensor(user, &one, TUTTI_I32);
    tutti_call own;
    tutti_call_init(&own);
    if (call) {
        own = *call;
    }
    own.flags |= ledger_cancellable(g);
    return tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, &own, work);
}

/* A token fires by its limit while a thread waits for an operation that cannot end yet. */
static void limited(tutti_work *held)
{
    int32_t fired = -1;
    tutti_error e;
    tutti_cancel_token *token = NULL;
    EXPECT(tutti_cancel_token_create(NULL, 1, &token, &e) == TUTTI_OK);
    EXPECT(tutti_work_wait_token(held, LONG_MS, token, &e) == TUTTI_CANCELLED);
    EXPECT(tutti_cancel_token_fired(token, &fired) == TUTTI_OK && fired == 1);
    EXPECT(tutti_cancel_token_destroy(token, &e) == TUTTI_OK);
    EXPECT(tutti_cancel_token_destroy(token, &e) == TUTTI_BAD_STATE);
}

/* Rank 0 uses a token above `child`, the token of the second of two operations; rank 1 has joined neither. */
static void fire(tutti_group *g, tutti_work *first, tutti_cancel_token *parent, tutti_cancel_token *child)
{
    int32_t fired = -1;
    int32_t value = 0;
    int64_t began = -1;
    tutti_error e;
    tutti_work *third = NULL;
    EXPECT(tutti_cancel_token_fired(child, &fired) == TUTTI_OK && fired == 0);
    EXPECT(tutti_work_wait_token(first, 1, parent, &e) == TUTTI_BUSY);
    EXPECT(tutti_cancel_token_cancel(parent, &began, &e) == TUTTI_OK && began == 0);
    EXPECT(tutti_work_wait_token(first, 1000, parent, &e) == TUTTI_CANCELLED && e.scope == TUTTI_SCOPE_CALL);
    EXPECT(tutti_cancel_token_fired(child, &fired) == TUTTI_OK && fired == 1);
    EXPECT(tutti_barrier_async(g, TUTTI_CALL(.token = child, .flags = ledger_cancellable(g)), &third) ==
               TUTTI_CANCELLED &&
           third == NULL);
    EXPECT(tutti_run_with_deadline(g, start_sum, &value, 0, child, &e) == TUTTI_CANCELLED);
    EXPECT(tutti_run_all_with_deadline(g, &(tutti_start){start_sum, &value}, 1, 0, child, &e) == TUTTI_CANCELLED);
}

static void tokens(tutti_group *g, int32_t rank)
{
    tutti_error e;
    tutti_cancel_token *parent = NULL;
    tutti_cancel_token *child = NULL;
    tutti_work *first = NULL;
    tutti_work *second = NULL;
    EXPECT(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &parent, &e) == TUTTI_OK);
    EXPECT(tutti_cancel_token_create(parent, TUTTI_FOREVER, &child, &e) == TUTTI_OK);
    if (rank == 1) {
        EXPECT(await_count(ledger_flag(TOKEN), 1));
    }
    EXPECT(tutti_barrier_async(g, NULL, &first) == TUTTI_OK);
    EXPECT(tutti_barrier_async(g, TUTTI_CALL(.token = child, .flags = ledger_cancellable(g)), &second) == TUTTI_OK);
    if (rank == 0) {
        limited(first);
        fire(g, first, parent, child);
        atomic_store(ledger_flag(TOKEN), 1);
    }
    EXPECT(ledger_end(&first) == TUTTI_OK);
    EXPECT(ledger_end(&second) == TUTTI_CANCELLED);
    EXPECT(tutti_cancel_token_destroy(child, &e) == TUTTI_OK);
    EXPECT(tutti_cancel_token_destroy(parent, &e) == TUTTI_OK);
}

/* ---- starting and waiting in one --------------------------------------------------------------------------------- */

static tutti_status start_mismatch(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    DLTensor t = ledger_tensor(user, &one, tutti_group_rank(g) == 0 ? TUTTI_I32 : TUTTI_F32);
    return tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, call, work);
}

static void in_one(tutti_group *g, int32_t rank)
{
    int32_t values[3] = {rank + 1, rank + 1, rank + 1};
    const tutti_start good[2] = {{start_sum, &values[1]}, {start_sum, &values[2]}};
    const tutti_start bad[2] = {{start_sum, &values[1]}, {start_mismatch, &values[2]}};
    tutti_error e;
    EXPECT(tutti_run_with_deadline(g, start_sum, &values[0], LONG_MS, NULL, &e) == TUTTI_OK);
    EXPECT(tutti_run_all_with_deadline(g, good, 2, LONG_MS, NULL, &e) == TUTTI_OK);
    EXPECT(values[0] == 3 && values[1] == 3 && values[2] == 3);
    EXPECT(tutti_run_with_deadline(g, start_mismatch, &values[0], 0, NULL, &e) == TUTTI_MISMATCH);
    EXPECT(strstr(e.message, "run_with_deadline: all_reduce") != NULL);
    EXPECT(tutti_run_all_with_deadline(g, bad, 2, 0, NULL, &e) == TUTTI_MISMATCH && values[1] == 6);
    EXPECT(strstr(e.message, "operations[1]") != NULL);
}

struct firing {
    int32_t *value;
    tutti_cancel_token *token;
};

static tutti_status start_and_fire(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    const struct firing *f = user;
    const tutti_status status = start_sum(g, call, f->value, work);
    EXPECT(tutti_cancel_token_cancel(f->token, NULL, NULL) == TUTTI_OK);
    return status;
}

/* A limit and a token end the wait only; the operations continue, and rank 1 joins them later. */
static void in_one_with_limit(tutti_group *g, int32_t rank)
{
    int32_t values[4] = {1, 1, 1, 1};
    const tutti_start both[2] = {{start_sum, &values[2]}, {start_sum, &values[3]}};
    tutti_error e;
    tutti_cancel_token *token = NULL;
    tutti_work *works[4] = {NULL, NULL, NULL, NULL};
    if (rank == 0) {
        EXPECT(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e) == TUTTI_OK);
        EXPECT(tutti_run_with_limit(g, start_sum, &values[0], 1, NULL, &works[0], &e) == TUTTI_BUSY);
        EXPECT(e.scope == TUTTI_SCOPE_CALL && e.deadline_ms == 1);
        struct firing f = {.value = &values[1], .token = token};
        EXPECT(tutti_run_with_limit(g, start_and_fire, &f, TUTTI_FOREVER, token, &works[1], &e) == TUTTI_CANCELLED);
        EXPECT(e.scope == TUTTI_SCOPE_CALL);
        EXPECT(tutti_cancel_token_destroy(token, &e) == TUTTI_OK);
        EXPECT(tutti_run_all_with_limit(g, both, 2, 1, NULL, &works[2], &e) == TUTTI_BUSY);
        atomic_store(ledger_flag(LIMIT), 1);
        for (int i = 0; i < 4; i++) {
            EXPECT(ledger_end(&works[i]) == TUTTI_OK && values[i] == 2);
        }
    } else {
        EXPECT(await_count(ledger_flag(LIMIT), 1));
        for (int i = 0; i < 4; i++) {
            EXPECT(tutti_run_with_deadline(g, start_sum, &values[i], 0, NULL, &e) == TUTTI_OK && values[i] == 2);
        }
    }
}

/* A task of the application's own. */
static void own_task(tutti_group *g)
{
    int32_t value = 5;
    int32_t cancelled = 0;
    const DLTensor output = ledger_tensor(&value, &one, TUTTI_I32);
    DLTensor view = {.data = NULL};
    tutti_error e;
    tutti_work *work = NULL;
    EXPECT(tutti_work_create(g, &output, NULL, &work) == TUTTI_OK && work != NULL);
    EXPECT(tutti_work_wait(work, 0) == TUTTI_BUSY);
    EXPECT(tutti_work_cancel(work, &e) == TUTTI_OK);
    EXPECT(tutti_work_cancelled(work, &cancelled) == TUTTI_OK && cancelled == 1);
    EXPECT(tutti_work_complete(work, TUTTI_OK, NULL, &e) == TUTTI_OK);
    EXPECT(tutti_work_complete(work, TUTTI_OK, NULL, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_work_wait(work, 0) == TUTTI_OK); /* without a limit a task that is never completed would hang */
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_OK && view.data == &value);
    EXPECT(tutti_work_release(work) == TUTTI_OK);
}

/* ---- several threads of a rank, each with a lane ----------------------------------------------------------------- */

struct caller {
    tutti_group *group;
    int32_t lane;
};

static void *call_in_lane(void *argument)
{
    const struct caller *c = argument;
    for (int32_t i = 0; i < ROUNDS; i++) {
        int32_t values[2] = {c->lane, i};
        tutti_work *works[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++) {
            DLTensor t = ledger_tensor(&values[k], &one, TUTTI_I32);
            EXPECT(tutti_all_reduce_async(c->group, &t, &t, TUTTI_SUM, TUTTI_CALL(.lane = c->lane), &works[k]) ==
                   TUTTI_OK);
        }
        EXPECT(ledger_end(&works[1]) == TUTTI_OK && ledger_end(&works[0]) == TUTTI_OK);
        EXPECT(values[0] == RANKS * c->lane && values[1] == RANKS * i);
    }
    return NULL;
}

static void threads(tutti_group *g)
{
    pthread_t thread[LANES];
    struct caller callers[LANES];
    for (int32_t i = 0; i < LANES; i++) {
        callers[i] = (struct caller){g, i};
        EXPECT(pthread_create(&thread[i], NULL, call_in_lane, &callers[i]) == 0);
    }
    for (int32_t i = 0; i < LANES; i++) {
        pthread_join(thread[i], NULL);
    }
}

static tutti_status everything(tutti_group *g, void *user)
{
    (void)user;
    int32_t rank = tutti_group_rank(g);
    reductions(g, rank);
    movements(g, rank);
    barriers(g);
    handle(g, rank);
    no_result(g, rank);
    cancelling(g, rank);
    tokens(g, rank);
    in_one(g, rank);
    in_one_with_limit(g, rank);
    own_task(g);
    threads(g);
    return TUTTI_OK;
}

/* ---- a group of some ranks --------------------------------------------------------------------------------------- */

static tutti_status some_ranks(tutti_group *world, void *user)
{
    const int32_t members[2] = {2, 0};
    int32_t value = tutti_group_rank(world) + 1;
    tutti_error e;
    tutti_group *g = NULL;
    tutti_work *work = NULL;
    (void)user;
    if (value != 2) { /* rank 1 takes no part, and no rank waits for it */
        EXPECT(tutti_group_create(world, members, 2, NULL, &g, &e) == TUTTI_OK);
        EXPECT(start_sum(g, NULL, &value, &work) == TUTTI_OK);
        EXPECT(ledger_end(&work) == TUTTI_OK && value == 4);
        EXPECT(tutti_group_destroy(g, &e) == TUTTI_OK);
    }
    return TUTTI_OK;
}

/* ---- deadlines; each makes its group fail ------------------------------------------------------------------------ */

static tutti_status run_work(tutti_group *g, tutti_error *e)
{
    tutti_work *work = NULL;
    EXPECT(tutti_barrier_async(g, TUTTI_CALL(.timeout_ms = LATE_MS), &work) == TUTTI_OK);
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_TIMEOUT);
    EXPECT(tutti_work_error(work, e) == TUTTI_OK);
    return ledger_end(&work);
}

static tutti_status run_one(tutti_group *g, tutti_error *e)
{
    int32_t value = 0;
    return tutti_run_with_deadline(g, start_sum, &value, LATE_MS, NULL, e);
}

static tutti_status run_two(tutti_group *g, tutti_error *e)
{
    int32_t values[2] = {0, 0};
    const tutti_start operations[2] = {{start_sum, &values[0]}, {start_sum, &values[1]}};
    return tutti_run_all_with_deadline(g, operations, 2, LATE_MS, NULL, e);
}

struct late {
    tutti_status (*run)(tutti_group *g, tutti_error *e);
    int over; /* a flag */
};

/* Rank 1 does not call; rank 0 gets a timeout when the deadline passes. */
static tutti_status wait_in_vain(tutti_group *g, void *user)
{
    struct late *late = user;
    if (tutti_group_rank(g) == 1) {
        EXPECT(await_count(ledger_flag(late->over), 1));
        return TUTTI_OK;
    }
    tutti_error e;
    memset(&e, 0, sizeof(e));
    EXPECT(late->run(g, &e) == TUTTI_TIMEOUT && e.status == TUTTI_TIMEOUT);
    EXPECT(e.deadline_ms == LATE_MS && e.elapsed_ms >= LATE_MS);
    EXPECT(e.suspect == 1 ||
           e.elapsed_ms >= LATE_MS + 1000); /* later, an abort may have come before the engine's error */
    atomic_store(ledger_flag(late->over), 1);
    return TUTTI_OK;
}

int main(void)
{
    struct late late[] = {{run_work, LATE}, {run_one, LATE + 1}, {run_two, LATE + 2}};
    setenv("TUTTI_LANES", "3", 1);
    ledger_on_ranks(RANKS, everything, NULL);
    ledger_on_ranks(RANKS + 1, some_ranks, NULL);
    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        ledger_on_ranks(RANKS, wait_in_vain, &late[i]);
    }
    return ledger_result();
}
