/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=50 ranks=2,4 timeout=120 */
/*
 * The errors of ranks when one of them is late, has left, or makes another call. Runs on the ranks that the launcher
 * started (processes) and, on rank 0, on threads. Every case works on a group of its own, because most of them end with
 * that group failed; the world group keeps the ranks in step.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#include "time_limits.h"

#define LATE_MS 8000 /* longer than ranks that call at the same time are apart on a busy machine */

static _Atomic int failures;

static void expect(int ok, tutti_group *world, const char *where, const tutti_error *e)
{
    if (!ok) {
        fprintf(stderr, "rank %d of %d (%s): %s: got %s \"%s\" suspect %d\n", tutti_group_rank(world),
                tutti_group_size(world), tutti_group_backend(world), where, tutti_status_name(e->status), e->message,
                e->suspect);
        failures++;
    }
}

static tutti_group *fresh(tutti_group *world, int32_t lanes)
{
    int32_t ranks[64];
    int32_t n = tutti_group_size(world);
    for (int32_t i = 0; i < n; i++) {
        ranks[i] = i;
    }
    tutti_group *g = NULL;
    tutti_error e;
    tutti_status status = tutti_group_create(world, ranks, n, TUTTI_CONFIG(.lanes = lanes), &g, &e);
    expect(status == TUTTI_OK, world, "making a group", &e);
    return g;
}

static tutti_status sum(tutti_group *g, int64_t count, const tutti_call *call)
{
    static _Thread_local float data[70000];
    const float size = (float)tutti_group_size(g);
    for (int64_t i = 0; i < count; i++) {
        data[i] = 1;
    }
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_F32);
    tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, call);
    for (int64_t i = 0; status == TUTTI_OK && i < count; i++) {
        status = data[i] == size ? TUTTI_OK : TUTTI_INTERNAL;
    }
    return status;
}

/* Small and large: the error names the late rank; later calls and the late rank itself get REVOKED. */
static void late_rank(tutti_group *world, int64_t count)
{
    tutti_group *g = fresh(world, 2);
    int32_t late = tutti_group_size(world) - 1;
    int32_t rank = tutti_group_rank(world);
    tutti_error e = {0};
    tutti_error details;
    if (rank != late) {
        tutti_status status = sum(g, count, TUTTI_CALL(.timeout_ms = LATE_MS, .error = &e));
        char name[24];
        snprintf(name, sizeof(name), "rank %d", late);
        /* the first rank to abort fails the group; another rank may get REVOKED in the same call */
        expect(status == TUTTI_TIMEOUT && e.suspect == late && strstr(e.message, name), world, "late: time-out", &e);
        expect(e.scope == TUTTI_SCOPE_GROUP && e.operation == TUTTI_OP_ALL_REDUCE && e.sequence == 1, world,
               "late: details", &e);
        status = sum(g, count, TUTTI_CALL(.timeout_ms = LATE_MS, .error = &e));
        expect(status == TUTTI_REVOKED, world, "late: next call", &e);
        tutti_group_error(g, &details);
        expect(details.status == TUTTI_TIMEOUT, world, "late: group error", &details);
    }
    tutti_barrier(world, NULL);
    if (rank == late) {
        tutti_status status = sum(g, count, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e));
        expect(status == TUTTI_REVOKED, world, "late: the laggard", &e);
        status = tutti_barrier(g, TUTTI_CALL(.lane = 1, .timeout_ms = LONG_MS, .error = &e));
        expect(status == TUTTI_REVOKED, world, "late: another lane", &e);
    }
    tutti_group_destroy(g, NULL);
}

/* A root far ahead waits for credit; it names the late rank, not the ranks that wait for that one. */
static void slow_leaf(tutti_group *world)
{
    tutti_group *g = fresh(world, 1);
    int32_t slow = tutti_group_size(world) - 1;
    int32_t rank = tutti_group_rank(world);
    tutti_error e = {0};
    float x = 1;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_status status = TUTTI_OK;
    for (int i = 0; rank != slow && i < 100 && status == TUTTI_OK; i++) {
        status = tutti_broadcast(g, &t, 0, TUTTI_CALL(.timeout_ms = rank == 0 ? LATE_MS : LONG_MS, .error = &e));
    }
    if (rank == 0) {
        expect(status == TUTTI_TIMEOUT && e.suspect == slow && strstr(e.message, "many calls behind"), world,
               "slow leaf", &e);
        expect(e.sequence > 20 && e.sequence < 40, world, "slow leaf: how far ahead", &e);
    }
    tutti_barrier(world, NULL);
    tutti_group_destroy(g, NULL);
}

static void left_rank(tutti_group *world)
{
    tutti_group *g = fresh(world, 1);
    int32_t n = tutti_group_size(world);
    tutti_error e = {0};
    expect(sum(g, 10, TUTTI_CALL(.error = &e)) == TUTTI_OK, world, "left: before", &e);
    if (tutti_group_rank(world) != n - 1) {
        tutti_status status = tutti_barrier(g, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e));
        expect((status == TUTTI_PEER_LEFT || status == TUTTI_REVOKED) && e.suspect == n - 1, world, "left: barrier",
               &e);
        expect(status == TUTTI_REVOKED || strstr(e.message, "barrier"), world, "left: the operation", &e);
        float x = 0;
        int64_t one = 1;
        DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
        status = tutti_recv(g, &t, n - 1, 0, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e), NULL);
        expect(status == TUTTI_PEER_LEFT || status == TUTTI_REVOKED, world, "left: recv", &e);
    }
    tutti_group_destroy(g, NULL);
    tutti_barrier(world, NULL);
}

/* A message from a rank that has left is still received; waiting for another one ends with PEER_LEFT. */
static void left_sender(tutti_group *world)
{
    tutti_group *g = fresh(world, 1);
    int32_t rank = tutti_group_rank(world);
    int64_t one = 1;
    int32_t x = 41;
    tutti_error e = {0};
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_I32);
    if (rank == 0) {
        expect(tutti_send(g, &t, 1, 3, TUTTI_CALL(.error = &e)) == TUTTI_OK, world, "left sender: send", &e);
        tutti_group_destroy(g, NULL);
        tutti_barrier(world, NULL);
        return;
    }
    tutti_barrier(world, NULL);
    if (rank == 1) {
        x = 0;
        expect(tutti_probe_wait(g, 0, 3, TUTTI_CALL(.error = &e), NULL) == TUTTI_OK, world, "left sender: probe", &e);
        expect(tutti_recv(g, &t, 0, 3, TUTTI_CALL(.error = &e), NULL) == TUTTI_OK && x == 41, world,
               "left sender: its message", &e);
        expect(tutti_probe_wait(g, 0, 3, TUTTI_CALL(.error = &e), NULL) == TUTTI_PEER_LEFT && e.suspect == 0, world,
               "left sender: no second one to probe", &e);
        expect(tutti_recv(g, &t, 0, 3, TUTTI_CALL(.error = &e), NULL) == TUTTI_PEER_LEFT && e.suspect == 0, world,
               "left sender: no second one", &e);
    }
    tutti_group_destroy(g, NULL);
}

static void different_calls(tutti_group *world)
{
    tutti_group *g = fresh(world, 1);
    int32_t rank = tutti_group_rank(world);
    tutti_error e = {0};
    int64_t counts[] = {3, 300, 60000};
    for (int i = 0; i < 3; i++) {
        int64_t count = counts[i] + (rank == 1);
        expect(sum(g, count, TUTTI_CALL(.error = &e)) == TUTTI_MISMATCH, world, "mismatch: count", &e);
        expect(e.suspect >= 0 && e.suspect != rank && strstr(e.message, "all_reduce"), world, "mismatch: text", &e);
        expect(sum(g, counts[i], TUTTI_CALL(.error = &e)) == TUTTI_OK, world, "mismatch: afterwards", &e);
    }
    tutti_status status = sum(g, 5, TUTTI_CALL(.error = &e, .tag = rank == 0 ? 7 : 0x70000));
    expect(status == TUTTI_MISMATCH, world, "mismatch: tag", &e);
    status = rank == 0 ? tutti_barrier(g, TUTTI_CALL(.error = &e)) : sum(g, 5, TUTTI_CALL(.error = &e));
    expect(status == TUTTI_MISMATCH, world, "mismatch: kind", &e);
    expect(sum(g, 70000, TUTTI_CALL(.error = &e)) == TUTTI_OK, world, "mismatch: still usable", &e);
    tutti_barrier(g, NULL);
    tutti_group_destroy(g, NULL);
}

/* A root that has returned gets the error in its next call that waits, once; the other ranks got it before. The group
 * works on. */
static void different_from_root(tutti_group *world)
{
    tutti_group *g = fresh(world, 1);
    int32_t rank = tutti_group_rank(world);
    tutti_error e = {0};
    float x[4] = {0};
    int64_t four = 4;
    DLTensor t = tutti_tensor_1d(x, &four, TUTTI_F32);
    if (rank == 0) {
        expect(tutti_broadcast(g, &t, 0, TUTTI_CALL(.error = &e)) == TUTTI_OK, world, "root: broadcast", &e);
    } else {
        expect(sum(g, 4, TUTTI_CALL(.error = &e)) == TUTTI_MISMATCH && e.suspect == 0, world, "root: others", &e);
    }
    const tutti_status status = sum(g, 9, TUTTI_CALL(.error = &e));
    expect(status == (rank == 0 ? TUTTI_MISMATCH : TUTTI_OK), world, "root: found out", &e);
    expect(rank != 0 || (e.suspect > 0 && strstr(e.message, "broadcast")), world, "root: text", &e);
    for (int i = 0; i < 3; i++) {
        expect(sum(g, 9, TUTTI_CALL(.error = &e)) == TUTTI_OK, world, "root: usable", &e);
    }
    tutti_barrier(world, NULL);
    tutti_group_destroy(g, NULL);
}

static void late_message(tutti_group *world)
{
    tutti_group *g = fresh(world, 1);
    tutti_error e = {0};
    float x = 0;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    if (tutti_group_rank(world) == 0) {
        tutti_status status = tutti_recv(g, &t, 1, 9, TUTTI_CALL(.timeout_ms = 150, .error = &e), NULL);
        expect(status == TUTTI_TIMEOUT && e.suspect == 1 && strstr(e.message, "rank 1, tag 9"), world, "message", &e);
        status = tutti_barrier(g, TUTTI_CALL(.error = &e));
        expect(status == TUTTI_REVOKED, world, "message: revoked", &e);
    }
    tutti_barrier(world, NULL);
    if (tutti_group_rank(world) == 1) {
        expect(tutti_send(g, &t, 0, 9, TUTTI_CALL(.error = &e)) == TUTTI_REVOKED, world, "message: the sender", &e);
    }
    tutti_group_destroy(g, NULL);
}

struct early_end {
    const char *store;
    int32_t rank;
    tutti_status status;
    tutti_error error;
};

/* Rank 1 is a thread that ends without destroying its group. */
static void *rank_that_ends(void *argument)
{
    struct early_end *t = argument;
    tutti_group *g = NULL;
    t->status = tutti_init(
        TUTTI_CONFIG(.backend = "local", .rank = t->rank, .world_size = 2, .store = t->store, .timeout_ms = LONG_MS),
        &g, &t->error);
    if (t->status == TUTTI_OK && t->rank == 0) {
        t->status = tutti_barrier(g, TUTTI_CALL(.error = &t->error));
        tutti_group_destroy(g, NULL);
    }
    return NULL;
}

static void thread_ends_early(void)
{
    struct early_end ranks[2];
    pthread_t threads[2];
    for (int r = 0; r < 2; r++) {
        ranks[r] = (struct early_end){.store = "memory:early-end", .rank = r};
        if (pthread_create(&threads[r], NULL, rank_that_ends, &ranks[r]) != 0) {
            abort();
        }
    }
    for (int r = 0; r < 2; r++) {
        pthread_join(threads[r], NULL);
    }
    if (ranks[1].status != TUTTI_OK || ranks[0].status != TUTTI_PEER_LEFT || ranks[0].error.suspect != 1) {
        fprintf(stderr, "a thread that ended: got %s \"%s\"\n", tutti_status_name(ranks[0].status),
                ranks[0].error.message);
        failures++;
    }
}

static tutti_status all_cases(tutti_group *world, void *user)
{
    (void)user;
    late_rank(world, 10);
    late_rank(world, 70000);
    slow_leaf(world);
    left_rank(world);
    left_sender(world);
    different_calls(world);
    different_from_root(world);
    late_message(world);
    tutti_barrier(world, NULL);
    return TUTTI_OK;
}

int main(void)
{
    tutti_group *world = NULL;
    tutti_error e;
    if (tutti_init(NULL, &world, &e) != TUTTI_OK) {
        fprintf(stderr, "init: %s\n", e.message);
        return 1;
    }
    if (tutti_group_rank(world) == 0) {
        int32_t threads = tutti_group_size(world) > 1 ? tutti_group_size(world) : 3;
        if (tutti_run_threads(threads, all_cases, NULL, &e) != TUTTI_OK) {
            fprintf(stderr, "threads: %s\n", e.message);
            failures++;
        }
    }
    if (tutti_group_rank(world) == 0) {
        thread_ends_early();
    }
    tutti_barrier(world, NULL);
    if (tutti_group_size(world) > 1) {
        all_cases(world, NULL);
    }
    tutti_group_destroy(world, NULL);
    tutti_finalize(NULL);
    return failures != 0;
}
