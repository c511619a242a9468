/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend fault over shm, with threads as ranks. Operations take at least as long as the rules say. Errors and
 * drops reach the other ranks, with the number of the rank that failed. Statuses that a group survives leave it usable.
 *
 * Where no rank may wait for long, the deadline is infinite: a hang fails the test by its timeout.
 */
#include "api/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/backend.h>

#include "clock.h"
#include "time_limits.h"

#define RANKS 3
#define MS    INT64_C(1000000)

static tutti_group *make(tutti_group *world, const char *backend, const char *rules)
{
    static const int32_t all[RANKS] = {0, 1, 2};
    char text[320];
    snprintf(text, sizeof(text), "fault.rules=%s", rules);
    const char *const settings[] = {text, NULL};
    tutti_group *g = NULL;
    tutti_error e;
    tutti_status status = tutti_group_create(
        world, all, RANKS, TUTTI_CONFIG(.backend = backend, .settings = settings, .timeout_ms = LONG_MS), &g, &e);
    test_status(__FILE__, __LINE__, rules, status, TUTTI_OK, &e, "");
    return g;
}

/* All ranks have finished with the group. */
static void end(tutti_group *world, tutti_group *g)
{
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

static tutti_status sum(tutti_group *g, int64_t timeout_ms, tutti_error *e)
{
    int32_t value = 1;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = timeout_ms, .error = e));
    EXPECT(status != TUTTI_OK || value == RANKS);
    return status;
}

/* Expects a failure of the group that names `suspect`. */
static void expect_group_failure(int line, tutti_status status, const tutti_error *e, int32_t suspect)
{
    char name[24];
    snprintf(name, sizeof(name), "rank %d", suspect);
    bool fits = status > TUTTI_MISMATCH && e->status == status && e->scope == TUTTI_SCOPE_GROUP &&
                e->suspect == suspect && strstr(e->message, name);
    if (!fits) {
        char what[600];
        snprintf(what, sizeof(what), "expected a failure by rank %d, got %s (suspect %d): %s", suspect,
                 tutti_status_name(status), e->suspect, e->message);
        test_fail(__FILE__, line, what);
    }
}

static void no_rules(tutti_group *world)
{
    tutti_group *plain = make(world, "shm", "");
    tutti_group *g = make(world, "Fault", "");
    char text[4096];
    EXPECT(strcmp(tutti_group_backend(g), "fault") == 0);
    printf("on backend %s\n", tutti_group_backend(g));            /* read by scripts/check_ledger.py */
    const uint32_t recovery = TUTTI_CAP_RECOVER | TUTTI_CAP_GROW; /* no rules for them */
    EXPECT(tutti_group_capabilities(g) == (tutti_group_capabilities(plain) & ~recovery));
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_describe(g, text, sizeof(text), NULL, NULL));
    EXPECT(strstr(text, "over shm") && strstr(text, "rules: none") && strstr(text, "engine: shared memory"));
    end(world, plain);
    end(world, g);
}

static void delays(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "all_reduce:delay=20ms;*:delay=10ms,jitter=5ms,rank=1;send:delay=15ms");
    char text[4096];
    EXPECT_OK(tutti_group_describe(g, text, sizeof(text), NULL, NULL));
    EXPECT(strstr(text, "all_reduce:delay=20ms"));
    for (int i = 0; i < 3; i++) {
        int64_t begun = now_ns();
        EXPECT_OK(sum(g, -1, NULL));
        EXPECT(now_ns() - begun >= (rank == 1 ? 30 : 20) * MS);
    }
    /* a barrier is as late as its latest rank */
    EXPECT_OK(tutti_barrier(world, NULL));
    int64_t begun = now_ns();
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT(rank != 1 || now_ns() - begun >= 10 * MS);

    int32_t value = rank;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    begun = now_ns();
    if (rank == 0) {
        EXPECT_OK(tutti_send(g, &t, 1, 5, NULL));
        EXPECT(now_ns() - begun >= 15 * MS);
    } else if (rank == 1) {
        EXPECT_OK(tutti_recv(g, &t, 0, 5, NULL, NULL));
        EXPECT(value == 0 && now_ns() - begun >= 10 * MS);
    }
    end(world, g);
}

/* The payload of each operation, measured by its least duration at 1 MiB per second. */
static void bandwidth(tutti_group *world)
{
    enum { PART = 8192, KIB = 1024 };
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "*:bandwidth=2M;*:bandwidth=1M;*:bandwidth=1G");
    char *memory = calloc(2, RANKS * PART);
    const int64_t part = PART;
    const int64_t all = RANKS * PART;
    DLTensor small = tutti_tensor_1d(memory, &part, TUTTI_I8);
    DLTensor large = tutti_tensor_1d(memory, &all, TUTTI_I8);
    DLTensor other = tutti_tensor_1d(memory + RANKS * PART, &all, TUTTI_I8);
    DLTensor other_part = tutti_tensor_1d(memory + RANKS * PART, &part, TUTTI_I8);
    for (tutti_operation kind = TUTTI_OP_ALL_REDUCE; kind <= TUTTI_OP_SEND; kind++) {
        int64_t bytes = all;
        EXPECT_OK(tutti_barrier(world, NULL));
        int64_t start = now_ns();
        switch (kind) {
        case TUTTI_OP_ALL_REDUCE:
            EXPECT_OK(tutti_all_reduce(g, &large, &large, TUTTI_SUM, NULL));
            break;
        case TUTTI_OP_REDUCE:
            EXPECT_OK(tutti_reduce(g, &large, &large, TUTTI_SUM, 2, NULL));
            break;
        case TUTTI_OP_BROADCAST:
            EXPECT_OK(tutti_broadcast(g, &large, 1, NULL));
            break;
        case TUTTI_OP_ALL_GATHER:
            EXPECT_OK(tutti_all_gather(g, &small, &other, 0, NULL));
            break;
        case TUTTI_OP_GATHER:
            EXPECT_OK(tutti_gather(g, &small, &other, 0, 1, NULL));
            bytes = rank == 1 ? all : part;
            break;
        case TUTTI_OP_SCATTER:
            EXPECT_OK(tutti_scatter(g, &large, &other_part, 0, 2, NULL));
            bytes = rank == 2 ? all : part;
            break;
        case TUTTI_OP_REDUCE_SCATTER:
            EXPECT_OK(tutti_reduce_scatter(g, &large, &other_part, TUTTI_SUM, 0, NULL));
            break;
        case TUTTI_OP_ALL_TO_ALL:
            EXPECT_OK(tutti_all_to_all(g, &large, &other, 0, NULL));
            break;
        case TUTTI_OP_SEND:
            if (rank == 0) {
                EXPECT_OK(tutti_send(g, &large, 1, 0, NULL));
            } else if (rank == 1) {
                EXPECT_OK(tutti_recv(g, &large, 0, 0, NULL, NULL));
            }
            bytes = rank == 0 ? all : 0;
            break;
        default:
            EXPECT_OK(tutti_barrier(g, NULL));
            bytes = 0;
        }
        int64_t took = now_ns() - start;
        if (took < bytes * 1000000000 / (KIB * KIB)) {
            test_fail(__FILE__, __LINE__, tutti_operation_name(kind));
        }
    }
    const int64_t counts[RANKS] = {1, PART, 2 * PART - 1};
    int64_t begun = now_ns();
    DLTensor rows = tutti_tensor_1d(memory, &counts[rank], TUTTI_I8);
    EXPECT_OK(tutti_all_gather_v(g, &rows, &other, 0, counts, NULL, NULL));
    EXPECT(now_ns() - begun >= all * 1000000000 / (KIB * KIB));
    free(memory);
    end(world, g);
}

/* The sum of 1 MiB on every rank at 16 MiB per second, after a delay that comes on top. */
static void bandwidth_and_delay(tutti_group *world)
{
    tutti_group *g = make(world, "fault", "all_reduce:bandwidth=16M,delay=10ms");
    const int64_t count = 1 << 18;
    int32_t *data = calloc((size_t)count, sizeof(*data));
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_I32);
    int64_t begun = now_ns();
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL));
    EXPECT(now_ns() - begun >= 10 * MS + 1000000000 / 16);
    free(data);
    end(world, g);
}

/* A status that the group survives: the call fails on the rank that the rule names and on the others, and all
 * continue. */
static void fails_in_step(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "all_reduce:error=NO_MEMORY@2,rank=1;barrier:error=INVALID_ARGUMENT,rank=0");
    tutti_error e;
    EXPECT_OK(sum(g, -1, &e));
    tutti_status status = sum(g, -1, &e);
    if (rank == 1) {
        test_status(__FILE__, __LINE__, "the rank", status, TUTTI_NO_MEMORY, &e, "rule 1 of fault.rules (match 2)");
        EXPECT(e.operation == TUTTI_OP_ALL_REDUCE && e.sequence == 2 && e.suspect == 1 &&
               strcmp(e.backend, "fault") == 0);
    } else {
        EXPECT(status != TUTTI_OK && status <= TUTTI_MISMATCH && e.suspect == 1);
    }
    EXPECT_USABLE(g);
    status = tutti_barrier(g, TUTTI_CALL(.timeout_ms = -1, .error = &e));
    EXPECT(rank == 0 ? status == TUTTI_INVALID_ARGUMENT : status != TUTTI_OK && status <= TUTTI_MISMATCH);
    EXPECT_USABLE(g);
    end(world, g);
}

/* A status that the group does not survive: rank 1's third call fails at once, on all ranks. */
static void fails_the_group(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "all_reduce:error=TIMEOUT@3,rank=1");
    tutti_error e;
    EXPECT_OK(sum(g, -1, &e));
    EXPECT_OK(sum(g, -1, &e));
    EXPECT_OK(tutti_barrier(world, NULL)); /* no rank is in an earlier call when the group fails */
    tutti_status status = sum(g, -1, &e);
    expect_group_failure(__LINE__, status, &e, 1);
    if (rank == 1) {
        test_status(__FILE__, __LINE__, "rank 1", status, TUTTI_TIMEOUT, &e, "rule 1 of fault.rules (match 3)");
    } else {
        EXPECT(!strstr(e.message, "messages"));
    }
    status = tutti_barrier(g, TUTTI_CALL(.timeout_ms = -1, .error = &e));
    expect_group_failure(__LINE__, status, &e, 1);
    EXPECT(status == TUTTI_REVOKED);
    EXPECT_OK(tutti_group_error(g, &e));
    expect_group_failure(__LINE__, e.status, &e, 1);
    int32_t found;
    EXPECT(tutti_probe(g, (rank + 1) % RANKS, 0, &found, NULL, &e) == TUTTI_REVOKED);
    end(world, g);
}

static void messages_fail(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "send:error=BUSY@1;send:error=SYSTEM@3");
    int32_t value = 7;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_error e;
    if (rank == 0) {
        EXPECT_ERROR(&e, TUTTI_BUSY, "rule 1", tutti_send(g, &t, 1, 0, TUTTI_CALL(.error = &e, .timeout_ms = -1)));
        EXPECT(e.operation == TUTTI_OP_SEND && e.scope == TUTTI_SCOPE_CALL);
        value = 8;
        EXPECT_OK(tutti_send(g, &t, 1, 0, TUTTI_CALL(.error = &e, .timeout_ms = -1)));
        EXPECT_OK(tutti_barrier(world, NULL)); /* no rank is in an earlier call when the group fails */
        EXPECT_ERROR(&e, TUTTI_SYSTEM, "rule 2", tutti_send(g, &t, 1, 0, TUTTI_CALL(.error = &e, .timeout_ms = -1)));
        EXPECT(e.scope == TUTTI_SCOPE_GROUP);
        EXPECT(tutti_group_error(g, &e) == TUTTI_OK && e.status == TUTTI_SYSTEM);
    } else if (rank == 1) {
        EXPECT_OK(tutti_recv(g, &t, 0, 0, TUTTI_CALL(.error = &e, .timeout_ms = -1), NULL));
        EXPECT(value == 8); /* nothing of the first one was sent */
        EXPECT_OK(tutti_barrier(world, NULL));
        tutti_status status = tutti_recv(g, &t, 0, 0, TUTTI_CALL(.error = &e, .timeout_ms = -1), NULL);
        expect_group_failure(__LINE__, status, &e, 0);
        EXPECT(strstr(e.message, "messages"));
        EXPECT(tutti_group_error(g, &e) == TUTTI_OK && e.status == TUTTI_REVOKED);
    } else {
        EXPECT_OK(tutti_barrier(world, NULL));
    }
    end(world, g);

    /* one bad member, and no message of a batch is posted; the group still works */
    g = make(world, "fault", "recv:error=NO_RESOURCE@1,rank=0");
    int32_t got = -1;
    DLTensor into = tutti_tensor_1d(&got, &one, TUTTI_I32);
    const int32_t next = (rank + 1) % RANKS;
    const int32_t before = (rank + RANKS - 1) % RANKS;
    value = rank;
    if (rank == 0) {
        EXPECT_ERROR(&e, TUTTI_NO_RESOURCE, "recv: rank 0",
                     tutti_sendrecv(g, &t, next, 0, &into, before, 0, TUTTI_CALL(.error = &e), NULL));
        EXPECT(got == -1);
    }
    EXPECT_OK(tutti_sendrecv(g, &t, next, 0, &into, before, 0, TUTTI_CALL(.error = &e), NULL));
    EXPECT(got == before);
    EXPECT_USABLE(g);
    end(world, g);
}

struct dropped {
    tutti_group *group;
    _Atomic bool begins;
    tutti_status status;
};

static void *send_and_drop(void *user)
{
    struct dropped *d = user;
    int32_t value = 0;
    int64_t one = 1;
    tutti_work *work = NULL;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    atomic_store(&d->begins, true);
    d->status = tutti_send_async(d->group, &t, 1, 0, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER), &work);
    if (d->status == TUTTI_OK) {
        d->status = tutti_work_wait(work, TUTTI_FOREVER);
        EXPECT_OK(tutti_work_release(work));
    }
    return NULL;
}

/* A rank sleeps in the start of a message, until it aborts. Other messages of the rank are not held up. */
static void drop_beside_messages(tutti_group *world)
{
    tutti_group *g = make(world, "fault", "send:drop,rank=0");
    struct dropped d = {.group = g};
    int32_t value = 0;
    int64_t one = 1;
    tutti_work *work = NULL;
    pthread_t thread;
    tutti_error e;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    switch (tutti_group_rank(world)) {
    case 0:
        EXPECT(pthread_create(&thread, NULL, send_and_drop, &d) == 0);
        while (!atomic_load(&d.begins)) {
            sched_yield();
        }
        nanosleep(&(struct timespec){.tv_nsec = 20 * MS}, NULL); /* it is asleep, most likely */
        EXPECT_OK(tutti_recv_async(g, &t, 2, 0, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER), NULL, &work));
        EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(work));
        EXPECT_OK(tutti_group_abort(g, &e));
        pthread_join(thread, NULL);
        EXPECT(d.status != TUTTI_OK);
        break;
    case 2:
        EXPECT_OK(tutti_send(g, &t, 0, 0, TUTTI_CALL(.timeout_ms = TUTTI_FOREVER)));
        break;
    default:
        break;
    }
    end(world, g);
}

/* The other ranks detect the drop by their deadlines. The rank that dropped out sees the failure long before its own
 * deadline. */
static void drops(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "all_reduce:drop@2,rank=2;all_reduce:drop@4,error=SYSTEM@3,delay=80000s@3");
    tutti_error e;
    EXPECT_OK(sum(g, -1, &e));
    EXPECT_OK(tutti_barrier(world, NULL));
    tutti_status status = sum(g, rank == 0 ? 8000 : -1, &e);
    expect_group_failure(__LINE__, status, &e, 2);
    EXPECT(rank == 1 || status == TUTTI_TIMEOUT);
    EXPECT(rank != 2 || strstr(e.message, "did not take part, by rule 1 of fault.rules (match 2)"));
    EXPECT(sum(g, -1, &e) == TUTTI_REVOKED);
    EXPECT(sum(g, -1, &e) == TUTTI_REVOKED);
    end(world, g);

    /* the other way round: the rank that dropped out reaches its deadline first, and the others see its failure */
    g = make(world, "fault", "all_reduce:drop,rank=2");
    int64_t begun = now_ns();
    status = sum(g, rank == 2 ? 50 : -1, &e);
    expect_group_failure(__LINE__, status, &e, 2);
    EXPECT(rank != 2 || (status == TUTTI_TIMEOUT && now_ns() - begun >= (50 + 250) * MS));
    end(world, g);

    /* messages */
    g = make(world, "fault", "send:drop");
    int32_t value = 7;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    if (rank == 0) {
        EXPECT_ERROR(&e, TUTTI_TIMEOUT, "send: rank 0 did not take part",
                     tutti_send(g, &t, 1, 0, TUTTI_CALL(.error = &e, .timeout_ms = 50)));
    } else if (rank == 1) {
        status = tutti_recv(g, &t, 0, 0, TUTTI_CALL(.error = &e, .timeout_ms = -1), NULL);
        expect_group_failure(__LINE__, status, &e, 0);
        EXPECT(tutti_send(g, &t, 0, 0, TUTTI_CALL(.timeout_ms = -1)) == TUTTI_REVOKED);
    }
    end(world, g);
}

/* A long delay ends when the group fails, or at the deadline of the operation. */
static void delays_end(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_error e;
    tutti_group *g = make(world, "fault", "*:delay=80000s,rank=0;*:error=PEER_DEAD,rank=1");
    tutti_status status = rank == 0 ? tutti_barrier(g, TUTTI_CALL(.timeout_ms = -1, .error = &e)) : sum(g, -1, &e);
    expect_group_failure(__LINE__, status, &e, 1);
    EXPECT(rank != 1 || status == TUTTI_PEER_DEAD);
    end(world, g);

    /* then the inner operation decides: the other ranks have arrived, or soon will */
    g = make(world, "fault", "all_reduce:delay=80000s,rank=0");
    int64_t begun = now_ns();
    status = sum(g, rank == 0 ? 100 : -1, &e);
    EXPECT(rank != 0 || now_ns() - begun >= 100 * MS);
    EXPECT(status == TUTTI_OK || status == TUTTI_TIMEOUT || status == TUTTI_REVOKED);
    end(world, g);

    /* an operation that has ended with OK keeps that status, even if the rule delays its return past the deadline */
    g = make(world, "fault", "all_reduce:bandwidth=1,rank=1");
    const int64_t count = 100000;
    int32_t *data = calloc((size_t)count, sizeof(*data));
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_I32);
    EXPECT_OK(tutti_barrier(world, NULL));
    begun = now_ns();
    status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = rank == 1 ? 1500 : -1));
    EXPECT(rank != 1 || now_ns() - begun >= 1500 * MS);
    EXPECT(status == TUTTI_OK || status == TUTTI_TIMEOUT || status == TUTTI_REVOKED); /* the machine may be slow too */
    free(data);
    end(world, g);
}

/* Asynchronous collectives are delayed beside the thread that started them, messages where they are posted. */
static void asynchronous(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "all_reduce:delay=20ms;send:delay=15ms,rank=0;send:error=BUSY@2");
    const int64_t one = 1;
    int32_t value = 1;
    int32_t got = -1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    DLTensor into = tutti_tensor_1d(&got, &one, TUTTI_I32);
    tutti_work *work = NULL;
    tutti_error e;
    int64_t begun = now_ns();
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT(now_ns() - begun >= 20 * MS && value == RANKS);
    EXPECT_OK(tutti_work_release(work));

    value = rank;
    if (rank == 0) {
        begun = now_ns();
        EXPECT_OK(tutti_send_async(g, &t, 1, 3, NULL, &work));
        EXPECT(now_ns() - begun >= 15 * MS);
        EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(work));
        work = NULL;
        EXPECT_ERROR(&e, TUTTI_BUSY, "rule 3", tutti_send_async(g, &t, 1, 3, TUTTI_CALL(.error = &e), &work));
        EXPECT(!work);
    } else if (rank == 1) {
        EXPECT_OK(tutti_recv_async(g, &into, 0, 3, NULL, NULL, &work));
        EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
        EXPECT(got == 0);
        EXPECT_OK(tutti_work_release(work));
        EXPECT_OK(tutti_recv_async(g, &into, 2, 3, NULL, NULL, &work)); /* nothing will come */
        EXPECT_OK(tutti_work_cancel(work, &e));
        EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_CANCELLED);
        EXPECT_OK(tutti_work_release(work));
    }
    EXPECT_USABLE(g);
    end(world, g);
}

/* A rule does not fail a call that has been cancelled. */
static void cancelled_first(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "all_reduce:delay=100ms@1;all_reduce:error=NO_MEMORY@2,rank=1");
    const int64_t one = 1;
    int32_t values[2] = {1, 1};
    DLTensor t[2] = {tutti_tensor_1d(&values[0], &one, TUTTI_I32), tutti_tensor_1d(&values[1], &one, TUTTI_I32)};
    tutti_work *works[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_all_reduce_async(g, &t[i], &t[i], TUTTI_SUM, NULL, &works[i]));
    }
    tutti_status cancelled = rank == 1 ? tutti_work_cancel(works[1], NULL) : TUTTI_OK;
    EXPECT_OK(tutti_work_wait(works[0], TUTTI_FOREVER));
    tutti_status status = tutti_work_wait(works[1], TUTTI_FOREVER);
    EXPECT(cancelled == TUTTI_OK || cancelled == TUTTI_TOO_LATE);
    if (rank == 1) {
        EXPECT(status == (cancelled == TUTTI_OK ? TUTTI_CANCELLED : TUTTI_NO_MEMORY));
    } else {
        EXPECT(status == TUTTI_CANCELLED || status == TUTTI_MISMATCH);
    }
    EXPECT_OK(tutti_work_release(works[0]));
    EXPECT_OK(tutti_work_release(works[1]));
    EXPECT_USABLE(g);
    end(world, g);
}

/* A failure of the group ends asynchronous operations that wait in it, too. */
static void asynchronous_failure(tutti_group *world)
{
    const int32_t rank = tutti_group_rank(world);
    tutti_group *g = make(world, "fault", "barrier:drop,rank=2");
    tutti_work *message = NULL;
    tutti_work *barrier = NULL;
    tutti_error e;
    const int64_t one = 1;
    int32_t got = -1;
    DLTensor into = tutti_tensor_1d(&got, &one, TUTTI_I32);
    if (rank == 0) {
        EXPECT_OK(tutti_recv_async(g, &into, 1, 0, TUTTI_CALL(.timeout_ms = -1), NULL, &message));
    }
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.timeout_ms = rank == 2 ? 100 : -1), &barrier));
    tutti_status status = tutti_work_wait(barrier, TUTTI_FOREVER);
    EXPECT_OK(tutti_work_error(barrier, &e));
    expect_group_failure(__LINE__, status, &e, 2);
    EXPECT_OK(tutti_work_release(barrier));
    if (rank == 0) {
        status = tutti_work_wait(message, TUTTI_FOREVER);
        EXPECT_OK(tutti_work_error(message, &e));
        expect_group_failure(__LINE__, status, &e, 2);
        EXPECT_OK(tutti_work_release(message));
    }
    end(world, g);
}

/* ---- the time of a call ------------------------------------------------------------------------------------------ */

static const tutti_backend_ops *shm_ops;
static _Thread_local int64_t last_end_ns; /* of this rank's calls; 0: not looked at */

static void expect_begun_since(const tutti_op *op)
{
    EXPECT(op->begun_ns == 0 || op->begun_ns >= last_end_ns);
}

static tutti_status run_observed(void *state, tutti_op *op, tutti_error *error)
{
    expect_begun_since(op);
    return shm_ops->run(state, op, error);
}

static tutti_status run_p2p_observed(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                     tutti_error *error)
{
    for (size_t i = 0; i < count; i++) {
        expect_begun_since(ops[i]);
    }
    return shm_ops->run_p2p(state, ops, count, timeout_ms, error);
}

/* shm, whose operations are observed. */
static void register_observed(void)
{
    static tutti_backend_ops ops;
    static tutti_backend observed;
    observed = *tutti_backend_find("shm");
    shm_ops = observed.ops;
    ops = *shm_ops;
    ops.run = run_observed;
    ops.run_p2p = run_p2p_observed;
    observed.name = "observed";
    observed.priority = -1;
    observed.ops = &ops;
    EXPECT_OK(tutti_backend_register(&observed, NULL));
}

/* The time of a delayed call is its own, also if its descriptor is used again: by the call cache, whose entries serve
 * the third call, or by a persistent operation. Otherwise its deadline would pass with that of the first call. */
static void time_of_each_call(tutti_group *world)
{
    static const int32_t all[RANKS] = {0, 1, 2};
    const char *const settings[] = {"fault.backend=observed", "fault.rules=*:delay=1ms", NULL};
    const int32_t rank = tutti_group_rank(world);
    const int64_t one = 1;
    int32_t value = 1;
    int32_t got = -1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    DLTensor into = tutti_tensor_1d(&got, &one, TUTTI_I32);
    const tutti_persistent_op list[2] = {{.kind = TUTTI_OP_BARRIER}, {.kind = TUTTI_OP_BARRIER}};
    tutti_persistent *persistent = NULL;
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_create(world, all, RANKS, TUTTI_CONFIG(.backend = "fault", .settings = settings), &g, NULL));
    EXPECT_OK(tutti_persistent_init(g, list, 2, NULL, &persistent));
    for (int i = 0; i < 5; i++) {
        last_end_ns = now_ns();
        EXPECT_OK(sum(g, 0, NULL));
        last_end_ns = now_ns();
        EXPECT_OK(tutti_persistent_run(persistent, NULL));
        last_end_ns = now_ns();
        EXPECT_OK(tutti_sendrecv(g, &t, (rank + 1) % RANKS, 5, &into, (rank + 2) % RANKS, 5, NULL, NULL));
    }
    last_end_ns = 0;
    EXPECT_OK(tutti_persistent_release(persistent, NULL));
    end(world, g);
}

static tutti_status all_cases(tutti_group *world, void *user)
{
    (void)user;
    no_rules(world);
    delays(world);
    bandwidth(world);
    bandwidth_and_delay(world);
    fails_in_step(world);
    fails_the_group(world);
    messages_fail(world);
    drops(world);
    drop_beside_messages(world);
    delays_end(world);
    asynchronous(world);
    cancelled_first(world);
    asynchronous_failure(world);
    time_of_each_call(world);
    return TUTTI_OK;
}

int main(void)
{
    register_observed();
    test_ranks(RANKS, all_cases);
    EXPECT_OK(tutti_finalize(NULL));
    return test_result();
}
