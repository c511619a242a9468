/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery among threads. Waiting ranks see a revocation and an abort. Then: which calls are valid afterwards and their
 * results, agreement, shrinking without a rank that has left, growing by newcomers, and engines without recovery.
 * tests/faults/recovery.c tests deaths.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <tutti/backend.h>
#include <unistd.h>

#include "api/check.h"
#include "api/collectives/reaches.h"
#include "time_limits.h"

#define LATE_MS 8000 /* longer than ranks that call at the same time are apart on a busy machine */

static tutti_status sum(tutti_group *g, tutti_error *error)
{
    int64_t one = 1;
    int32_t value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS, .error = error));
    EXPECT(status != TUTTI_OK || value == tutti_group_size(g));
    return status;
}

/* The results of all calls on a group that has failed, for any cause. */
static void expect_failed(tutti_group *g, const char *why)
{
    int64_t one = 1;
    int32_t value = 0;
    int32_t count = -1;
    tutti_group *other = g;
    void *memory = NULL;
    tutti_error e;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_ERROR(&e, TUTTI_REVOKED, why, tutti_barrier(g, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_REVOKED, why,
                 tutti_send(g, &t, (tutti_group_rank(g) + 1) % tutti_group_size(g), 1, TUTTI_CALL(.error = &e)));
    EXPECT_ERROR(&e, TUTTI_REVOKED, "shrink", tutti_group_grow(g, "memory:nowhere", 1, 1000, &other, &e));
    EXPECT(other == g);
    EXPECT_ERROR(&e, TUTTI_REVOKED, why, tutti_alloc(g, 100, &memory, &e));
    EXPECT(!memory);
    EXPECT(tutti_group_error(g, &e) == TUTTI_OK && e.status == TUTTI_REVOKED && strstr(e.message, why));
    EXPECT_OK(tutti_group_revoke(g, &e)); /* sticky, and the first reason stays */
    EXPECT(tutti_group_error(g, &e) == TUTTI_OK && strstr(e.message, why));
    EXPECT_OK(tutti_group_failed(g, NULL, 0, &count, &e));
    EXPECT(count >= 0 && tutti_group_size(g) > 0);
}

/* The last rank revokes; the others wait for it without a deadline. */
static tutti_status revoked(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *rest = NULL;
    const int32_t n = tutti_group_size(g);
    const int32_t rank = tutti_group_rank(g);
    uint64_t flags = rank == 0 ? 6 : 7;
    int32_t count = -1;
    EXPECT(tutti_group_capabilities(g) & TUTTI_CAP_RECOVER && tutti_group_capabilities(g) & TUTTI_CAP_GROW);
    EXPECT_OK(sum(g, &e));
    EXPECT_OK(tutti_group_agree(g, &flags, NULL, 0, &count, LONG_MS, &e)); /* of a group that works */
    EXPECT(flags == 6 && count == 0);
    EXPECT_OK(sum(g, &e));
    if (rank == n - 1) {
        EXPECT_OK(tutti_group_revoke(g, &e));
    } else {
        EXPECT_ERROR(&e, TUTTI_REVOKED, "revoked",
                     tutti_barrier(g, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER, .error = &e)));
    }
    expect_failed(g, "revoked");
    EXPECT_OK(tutti_group_shrink(g, LONG_MS, &rest, &e));
    EXPECT(tutti_group_size(rest) == n && tutti_group_rank(rest) == rank);
    EXPECT(tutti_group_lanes(rest) == tutti_group_lanes(g));
    EXPECT(strcmp(tutti_group_backend(rest), "local") == 0);
    EXPECT_OK(sum(rest, &e));
    expect_failed(g, "revoked");
    EXPECT_OK(tutti_group_destroy(rest, NULL));
    return TUTTI_OK;
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) { /* a signal */
    }
}

static sem_t has_revoked;

/* A rank that has made no call since gets the failure from tutti_group_error as well. */
static tutti_status noted(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *other = NULL;
    EXPECT_OK(sum(g, &e));
    if (tutti_group_rank(g) == 0) {
        EXPECT_OK(tutti_group_revoke(g, &e));
        sem_post(&has_revoked);
        sem_post(&has_revoked);
        return TUTTI_OK;
    }
    await(&has_revoked);
    if (tutti_group_rank(g) == 1) {
        EXPECT(tutti_group_error(g, &e) == TUTTI_OK && e.status == TUTTI_REVOKED && e.suspect == 0);
        EXPECT(strstr(e.message, "rank 0 has revoked the group"));
    } else {
        EXPECT_ERROR(&e, TUTTI_REVOKED, "rank 0 has revoked",
                     tutti_group_grow(g, "memory:nowhere", 1, 1000, &other, &e));
    }
    return TUTTI_OK;
}

/* ---- abort ------------------------------------------------------------------------------------------------------- */

static _Atomic bool come_back;

static void *abort_often(void *group)
{
    tutti_error e;
    while (!atomic_load(&come_back)) {
        usleep(20000);
        EXPECT_OK(tutti_group_abort(group, &e));
    }
    return NULL;
}

/* BAD_STATE: it comes to it when all is over. */
static void *wait_for_ever(void *group)
{
    const tutti_status status = tutti_barrier(group, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER));
    EXPECT(status == TUTTI_REVOKED || status == TUTTI_BAD_STATE);
    return NULL;
}

/* Threads of rank 0 wait without a deadline: in an operation, a message, an agreement, and in the queue of the lane
 * behind the operation. Another thread aborts. Then the group can be destroyed, even if a thread has not returned
 * yet. */
static tutti_status aborted(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *rest = NULL;
    EXPECT_OK(sum(g, &e));
    if (tutti_group_rank(g) == 0) {
        pthread_t threads[3];
        int64_t one = 1;
        int32_t value = 0;
        int32_t count = 0;
        uint64_t flags = 1;
        tutti_work *work = NULL;
        DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
        EXPECT_OK(tutti_recv_async(g, &t, 1, 9, TUTTI_CALL(.timeout_ms = -1), NULL, &work));
        EXPECT(pthread_create(&threads[0], NULL, wait_for_ever, g) == 0);
        EXPECT(pthread_create(&threads[1], NULL, wait_for_ever, g) == 0);
        EXPECT(pthread_create(&threads[2], NULL, abort_often, g) == 0);
        EXPECT_ERROR(&e, TUTTI_REVOKED, "aborted", tutti_group_agree(g, &flags, NULL, 0, &count, -1, &e));
        atomic_store(&come_back, true);
        pthread_join(threads[2], NULL);
        EXPECT(tutti_work_wait(work, LONG_MS) == TUTTI_REVOKED);
        EXPECT_OK(tutti_work_release(work));
        expect_failed(g, "aborted");
        EXPECT_OK(tutti_group_shrink(g, LONG_MS, &rest, &e));
        EXPECT_OK(sum(rest, &e));
        EXPECT_OK(tutti_group_destroy(g, &e)); /* not BUSY */
        EXPECT_OK(tutti_group_destroy(rest, &e));
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        return TUTTI_OK;
    }
    int64_t one = 1;
    int32_t value = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_ERROR(&e, TUTTI_REVOKED, "rank 0 has aborted",
                 tutti_recv(g, &t, 0, 9, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER, .error = &e), NULL));
    EXPECT_OK(tutti_group_shrink(g, LONG_MS, &rest, &e));
    EXPECT_OK(sum(rest, &e));
    EXPECT_OK(tutti_group_destroy(rest, NULL));
    return TUTTI_OK;
}

/* After an abort, destroy ends a small operation for which no thread waits, and does not wait, without a deadline, for
 * what only the application can end. */
static tutti_status nobody_waits(tutti_group *world, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *g = NULL;
    tutti_events *events = NULL;
    tutti_work *started = NULL;
    tutti_work *own = NULL;
    int64_t one = 1;
    int32_t value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(tutti_group_split(world, 0, 0, TUTTI_CONFIG(.timeout_ms = TUTTI_FOREVER), &g, &e));
    if (tutti_group_rank(world) == 0) {
        EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &started));
        EXPECT_OK(tutti_work_create(g, NULL, NULL, &own));
        EXPECT_OK(tutti_group_abort(g, &e));
        EXPECT_ERROR(&e, TUTTI_BUSY, "operation is pending", tutti_group_destroy(g, &e));
        EXPECT_OK(tutti_work_complete(own, TUTTI_OK, NULL, &e));
        EXPECT_OK(tutti_events_create(g, &events, &e));
        EXPECT_ERROR(&e, TUTTI_BUSY, "events object", tutti_group_destroy(g, &e));
        EXPECT_OK(tutti_events_destroy(events, &e));
        EXPECT_OK(tutti_group_destroy(g, &e));
        EXPECT(tutti_work_wait(started, LONG_MS) == TUTTI_REVOKED);
        EXPECT_OK(tutti_work_release(started));
        EXPECT_OK(tutti_work_release(own));
    } else {
        EXPECT_OK(tutti_group_destroy(g, &e));
    }
    EXPECT_USABLE(world);
    return TUTTI_OK;
}

static _Atomic int returned;

static tutti_status wait_in_shrink(tutti_group *g, tutti_error *e)
{
    tutti_group *rest = NULL;
    return tutti_group_shrink(g, TUTTI_FOREVER, &rest, e);
}

static tutti_status wait_in_agree(tutti_group *g, tutti_error *e)
{
    int32_t count = 0;
    uint64_t flags = 5;
    return tutti_group_agree(g, &flags, NULL, 0, &count, TUTTI_FOREVER, e);
}

struct waiter {
    tutti_group *group;
    tutti_status (*wait)(tutti_group *g, tutti_error *e);
    tutti_status status;
    tutti_error error;
};

static void *wait_until_aborted(void *user)
{
    struct waiter *w = user;
    w->status = w->wait(w->group, &w->error);
    atomic_fetch_add(&returned, 1);
    return NULL;
}

/* Two threads of a rank make the same call: one is BUSY, the other waits for the other rank until a third thread
 * aborts. */
static void end_by_abort(tutti_group *g, tutti_status (*wait)(tutti_group *g, tutti_error *e))
{
    tutti_error e;
    pthread_t threads[2];
    struct waiter w[2] = {{.group = g, .wait = wait}, {.group = g, .wait = wait}};
    atomic_store(&returned, 0);
    for (int i = 0; i < 2; i++) {
        EXPECT(pthread_create(&threads[i], NULL, wait_until_aborted, &w[i]) == 0);
    }
    EXPECT(reaches(&returned, 1));
    EXPECT_OK(tutti_group_abort(g, &e));
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    const int busy = w[0].status == TUTTI_BUSY ? 0 : 1;
    EXPECT_ERROR(&w[busy].error, TUTTI_BUSY, "another thread", w[busy].status);
    EXPECT_ERROR(&w[1 - busy].error, TUTTI_REVOKED, "aborted", w[1 - busy].status);
}

static sem_t has_aborted;

/* A rank that aborts may call again, and takes part in calls that the others have begun. */
static tutti_status ended(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *rest = NULL;
    int32_t count = -1;
    uint64_t flags = 7;
    EXPECT_OK(sum(g, &e));
    if (tutti_group_rank(g) == 0) {
        end_by_abort(g, wait_in_agree);
        end_by_abort(g, wait_in_shrink);
        sem_post(&has_aborted);
    } else {
        await(&has_aborted);
    }
    EXPECT_OK(tutti_group_agree(g, &flags, NULL, 0, &count, LONG_MS, &e));
    EXPECT((flags == 7 || flags == 5) && count == 0);
    EXPECT_OK(tutti_group_shrink(g, LONG_MS, &rest, &e));
    EXPECT(tutti_group_size(rest) == 2);
    EXPECT_OK(sum(rest, &e));
    EXPECT_OK(tutti_group_destroy(rest, &e));
    return TUTTI_OK;
}

#define TEAR_MS 400
#define TEARS   12

static _Atomic int tear_us;      /* from the begin of a shrink to the abort */
static _Atomic int survivors[2]; /* members of each rank's new group */
static pthread_barrier_t all_done;

struct shrinker {
    tutti_group *group;
    tutti_group *rest;
    tutti_status status;
    tutti_error error;
};

static void shrink(struct shrinker *s)
{
    s->status = tutti_group_shrink(s->group, TEAR_MS, &s->rest, &s->error);
}

static void *abort_soon(void *group)
{
    usleep((useconds_t)atomic_load(&tear_us));
    EXPECT_OK(tutti_group_abort(group, NULL));
    return NULL;
}

/* Rank 0 aborts while both ranks shrink, at any point, and shrinks again: there are never two new groups. */
static tutti_status torn(tutti_group *g, void *user)
{
    (void)user;
    const int32_t rank = tutti_group_rank(g);
    struct shrinker s = {.group = g};
    EXPECT_OK(sum(g, &s.error));
    if (rank == 0) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, abort_soon, g) == 0);
        shrink(&s);
        pthread_join(thread, NULL);
    } else {
        shrink(&s);
        /* the other rank reports such an error; this rank may only have been late */
        EXPECT(s.status != TUTTI_REVOKED || strstr(s.error.message, "without this rank"));
    }
    for (int i = 0; i < 3 && rank == 0 && s.status != TUTTI_OK; i++) {
        shrink(&s);
    }
    EXPECT((s.status == TUTTI_OK) == (s.rest != NULL) && s.error.status == s.status);
    atomic_store(&survivors[rank], s.rest ? tutti_group_size(s.rest) : 0);
    pthread_barrier_wait(&all_done); /* no rank has left before */
    const int here = atomic_load(&survivors[rank]);
    const int there = atomic_load(&survivors[1 - rank]);
    EXPECT(here == 0 || there == 0 || (here == 2 && there == 2));
    if (here == 2 && there == 2) {
        EXPECT_OK(sum(s.rest, &s.error));
    }
    pthread_barrier_wait(&all_done);
    tutti_group_destroy(s.rest, NULL);
    return TUTTI_OK;
}

/* ---- ranks that have left, and ranks that are late --------------------------------------------------------------- */

static tutti_status left(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *rest = NULL;
    tutti_group *more = NULL;
    int32_t failed[4] = {-1, -1, -1, -1};
    int32_t count = -1;
    uint64_t flags = UINT64_MAX;
    const int32_t rank = tutti_group_rank(g);
    EXPECT_OK(sum(g, &e));
    if (rank == 1) {
        return TUTTI_OK; /* tutti_run_threads destroys its group */
    }
    const tutti_status status = sum(g, &e);
    EXPECT(status == TUTTI_PEER_LEFT || status == TUTTI_REVOKED);
    EXPECT_OK(tutti_group_agree(g, &flags, failed, 4, &count, LONG_MS, &e));
    EXPECT(flags == UINT64_MAX && count == 1 && failed[0] == 1 && failed[1] == -1);
    EXPECT_OK(tutti_group_failed(g, failed, 1, &count, &e));
    EXPECT(count == 1 && failed[0] == 1);
    EXPECT_OK(tutti_group_shrink(g, LONG_MS, &rest, &e));
    EXPECT(tutti_group_size(rest) == tutti_group_size(g) - 1 && tutti_group_rank(rest) == rank - (rank > 1));
    EXPECT(tutti_group_global_rank(rest, 1) == 2);
    EXPECT_OK(sum(rest, &e));
    EXPECT_OK(tutti_group_shrink(rest, LONG_MS, &more, &e)); /* a shrunk group can be shrunk again */
    EXPECT_OK(sum(more, &e));
    EXPECT_OK(tutti_group_destroy(rest, NULL));
    EXPECT_OK(tutti_group_destroy(more, NULL));
    return TUTTI_OK;
}

static sem_t others_done;

/* The last rank is late: agree names it, shrink excludes it, and its own calls then come too late. */
static tutti_status late(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *rest = NULL;
    int32_t count = -1;
    uint64_t flags = 1;
    const int32_t last = tutti_group_size(g) - 1;
    if (tutti_group_rank(g) == last) {
        for (int32_t r = 0; r < last; r++) {
            await(&others_done);
        }
        EXPECT_ERROR(&e, TUTTI_REVOKED, "without this rank", tutti_group_shrink(g, LONG_MS, &rest, &e));
        EXPECT_ERROR(&e, TUTTI_REVOKED, "without this rank", tutti_group_shrink(g, LONG_MS, &rest, &e));
        EXPECT(rest == NULL);
        expect_failed(g, "");
        return TUTTI_OK;
    }
    EXPECT_ERROR(&e, TUTTI_TIMEOUT, "rank 2", tutti_group_agree(g, &flags, NULL, 0, &count, LATE_MS, &e));
    EXPECT(e.suspect == last && flags == 1 && count == -1);
    EXPECT_OK(tutti_group_shrink(g, 2 * LATE_MS, &rest, &e));
    EXPECT(tutti_group_size(rest) == last);
    EXPECT_OK(tutti_group_agree(g, &flags, NULL, 0, &count, LONG_MS,
                                &e)); /* the same agreement: no rank waits for the late one */
    EXPECT(count == 1);
    EXPECT_OK(sum(rest, &e));
    EXPECT_OK(tutti_group_destroy(rest, NULL));
    sem_post(&others_done);
    return TUTTI_OK;
}

/* ---- growing ----------------------------------------------------------------------------------------------------- */

#define NEWCOMERS 2

static char token[TUTTI_TOKEN_BYTES];

static void *come_in(void *unused)
{
    tutti_error e;
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_join(token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &g, &e));
    EXPECT(tutti_group_size(g) == 2 + NEWCOMERS && tutti_group_rank(g) >= 2 && tutti_group_lanes(g) == 1);
    EXPECT(tutti_group_global_rank(g, 0) == 0);
    EXPECT_OK(sum(g, &e));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    return unused;
}

static tutti_status grown(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *larger = NULL;
    const int32_t rank = tutti_group_rank(g);
    pthread_t newcomers[NEWCOMERS];
    if (rank == 0) {
        EXPECT_OK(tutti_group_token(g, token, sizeof(token), &e));
        EXPECT(strlen(token) > 20);
    }
    EXPECT_OK(sum(g, &e)); /* behind it all have the token */
    for (int i = 0; rank == 0 && i < NEWCOMERS; i++) {
        EXPECT(pthread_create(&newcomers[i], NULL, come_in, NULL) == 0);
    }
    EXPECT_OK(tutti_group_grow(g, token, NEWCOMERS, LONG_MS, &larger, &e));
    EXPECT(tutti_group_size(larger) == 2 + NEWCOMERS && tutti_group_rank(larger) == rank);
    EXPECT_OK(sum(larger, &e));
    EXPECT_OK(sum(g, &e));
    for (int i = 0; rank == 0 && i < NEWCOMERS; i++) {
        pthread_join(newcomers[i], NULL);
    }
    EXPECT_OK(tutti_group_destroy(larger, NULL));
    larger = NULL;
    if (rank == 0) {
        EXPECT_OK(tutti_group_token(g, token, sizeof(token), &e));
    }
    EXPECT_OK(sum(g, &e));
    EXPECT_ERROR(&e, TUTTI_TIMEOUT, "", tutti_group_grow(g, token, 1, 300, &larger, &e)); /* no newcomer joins */
    EXPECT(larger == NULL);
    EXPECT_OK(sum(g, &e));
    return TUTTI_OK;
}

#define SHORT_MS 200

static void *come_late(void *unused)
{
    tutti_error e;
    tutti_group *g = NULL;
    usleep(3 * SHORT_MS * 1000);
    EXPECT_OK(tutti_group_join(token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &g, &e));
    EXPECT_OK(sum(g, &e));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    return unused;
}

/* Growing uses its own time limit, not the group's deadline, which is shorter. */
static void patient(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_group *larger = NULL;
    char text[4000] = "";
    pthread_t newcomer;
    EXPECT_OK(tutti_init(
        TUTTI_CONFIG(.backend = "local", .world_size = 1, .timeout_ms = SHORT_MS, .store = "memory:recovery-patient"),
        &g, &e));
    EXPECT_OK(tutti_group_token(g, token, sizeof(token), &e));
    EXPECT(pthread_create(&newcomer, NULL, come_late, NULL) == 0);
    EXPECT_OK(tutti_group_grow(g, token, 1, LONG_MS, &larger, &e));
    EXPECT_OK(sum(larger, &e));
    EXPECT_OK(tutti_group_describe(larger, text, sizeof(text), NULL, &e));
    EXPECT(strstr(text, "deadline 200 ms"));
    EXPECT_OK(tutti_group_destroy(larger, &e));
    pthread_join(newcomer, NULL);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

/* ---- unsupported engines and bad arguments ----------------------------------------------------------------------- */

static void expect_unsupported(tutti_group *g, bool aborts)
{
    tutti_error e;
    tutti_group *other = NULL;
    int32_t count = 0;
    uint64_t flags = 0;
    char text[TUTTI_TOKEN_BYTES];
    EXPECT(!(tutti_group_capabilities(g) & (TUTTI_CAP_RECOVER | TUTTI_CAP_GROW)));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend", tutti_group_revoke(g, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend", tutti_group_failed(g, NULL, 0, &count, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend", tutti_group_agree(g, &flags, NULL, 0, &count, -1, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend", tutti_group_shrink(g, -1, &other, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend", tutti_group_token(g, text, sizeof(text), &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend", tutti_group_grow(g, "memory:nowhere", 1, -1, &other, &e));
    EXPECT(e.operation == TUTTI_OP_GROW && other == NULL);
    if (aborts) {
        EXPECT_OK(tutti_group_abort(g, &e));
        EXPECT_ERROR(&e, TUTTI_REVOKED, "aborted", tutti_barrier(g, TUTTI_CALL(.error = &e)));
    } else {
        EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "backend null", tutti_group_abort(g, &e));
    }
}

static void unsupported(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "null", .rank = 1, .world_size = 3), &g, &e));
    expect_unsupported(g, false);
    EXPECT_OK(tutti_group_destroy(g, &e));
    EXPECT_OK(tutti_init(
        TUTTI_CONFIG(.backend = "fault", .world_size = 1, .settings = (const char *const[]){"fault.backend=shm", NULL}),
        &g, &e));
    expect_unsupported(g, true);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

static void in_callback(tutti_status status, const tutti_error *error, void *user)
{
    tutti_group *other = NULL;
    tutti_error e;
    int32_t count = 0;
    uint64_t flags = 0;
    (void)error;
    EXPECT(status == TUTTI_OK);
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_group_agree(user, &flags, NULL, 0, &count, 0, &e));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_group_shrink(user, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_group_grow(user, "memory:x", 1, 0, &other, &e));
    EXPECT_OK(tutti_group_failed(user, NULL, 0, &count, &e)); /* these do not wait */
    EXPECT_OK(tutti_group_revoke(user, &e));
    EXPECT_OK(tutti_group_abort(user, &e));
}

static void bad_inputs(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_group *other = NULL;
    int32_t count = 0;
    uint64_t flags = 0;
    char text[TUTTI_TOKEN_BYTES];
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1, .store = "memory:recovery-alone"), &g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_revoke(NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_abort(NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "list", tutti_group_failed(g, NULL, 2, &count, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "list", tutti_group_failed(g, NULL, 0, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "list", tutti_group_failed(g, &count, -1, &count, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "flags", tutti_group_agree(g, NULL, NULL, 0, &count, 0, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "timeout_ms", tutti_group_agree(g, &flags, NULL, 0, &count, -2, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_shrink(g, 0, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "bytes", tutti_group_token(g, text, sizeof(text) - 1, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "bytes", tutti_group_token(g, NULL, sizeof(text), &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "newcomers", tutti_group_grow(g, "memory:x", 0, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "newcomers", tutti_group_grow(g, "memory:x", INT32_MAX, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "65536 ranks", tutti_group_grow(g, "memory:x", 65536, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "token", tutti_group_grow(g, "", 1, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "group_join", tutti_group_join(NULL, NULL, &other, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "leave them out",
                 tutti_group_join("memory:x", TUTTI_CONFIG(.backend = "shm"), &other, &e));
    EXPECT_ERROR(&e, TUTTI_TIMEOUT, "by this token",
                 tutti_group_join("memory:recovery-none", TUTTI_CONFIG(.timeout_ms = 20), &other, &e));
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.callback = in_callback, .user = g)));
    EXPECT_OK(tutti_group_shrink(g, 0, &other, &e)); /* alone */
    EXPECT(tutti_group_size(other) == 1);
    EXPECT_OK(sum(other, &e));
    EXPECT_OK(tutti_group_destroy(other, &e));
    EXPECT_OK(tutti_group_destroy(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_shrink(g, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_abort(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_revoke(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_failed(g, NULL, 0, &count, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_agree(g, &flags, NULL, 0, &count, 0, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_grow(g, "memory:x", 1, 0, &other, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_group_token(g, text, sizeof(text), &e));
    EXPECT(tutti_group_error(g, &e) == TUTTI_BAD_STATE);
}

int main(void)
{
    sem_init(&others_done, 0, 0);
    sem_init(&has_revoked, 0, 0);
    sem_init(&has_aborted, 0, 0);
    pthread_barrier_init(&all_done, NULL, 2);
    bad_inputs();
    unsupported();
    patient();
    test_ranks(3, revoked);
    test_ranks(3, noted);
    test_ranks(2, aborted);
    test_ranks(2, nobody_waits);
    test_ranks(2, ended);
    for (int i = 0; i < TEARS; i++) {
        atomic_store(&tear_us, i * 80);
        test_ranks(2, torn);
    }
    test_ranks(4, left);
    test_ranks(3, late);
    test_ranks(2, grown);
    return test_result();
}
