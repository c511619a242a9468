/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,4 timeout=300 */
/*
 * Groups made, used and destroyed many times, in memory that served other groups before: overlapping ones, groups of
 * groups, groups without their parents, and by several threads. Members that ask for other settings than the parent's
 * make the group at the rendezvous, all of them or none.
 */
#include <pthread.h>
#include <stdlib.h>

#include "multi/expect.h"
#include "repetitions.h"
#include "time_limits.h"

#define ROUNDS  12
#define THREADS 3

static tutti_group *world;
static int32_t ranks;
static int32_t me;

/* Sums of sizes for each class of call, and a message to the next rank: results of the last group must not show up. */
static tutti_status use(tutti_group *g, int32_t secret, tutti_error *e)
{
    static const int64_t sizes[] = {1, 200, 5000, 70000};
    const int32_t n = tutti_group_size(g);
    const int32_t r = tutti_group_rank(g);
    int32_t *data = malloc(sizeof(*data) * 70000);
    tutti_status status = data ? TUTTI_OK : TUTTI_NO_MEMORY;
    for (int i = 0; i < 4 && status == TUTTI_OK; i++) {
        const int64_t count = sizes[(i + secret) % 4];
        for (int64_t k = 0; k < count; k++) {
            data[k] = secret + r;
        }
        DLTensor t = tutti_tensor_1d(data, &count, TUTTI_I32);
        status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = e));
        for (int64_t k = 0; k < count && status == TUTTI_OK; k++) {
            status = data[k] == n * secret + n * (n - 1) / 2 ? TUTTI_OK : TUTTI_INTERNAL;
        }
    }
    int32_t out = secret * 1000 + r;
    int32_t in = -1;
    const int64_t one = 1;
    DLTensor to = tutti_tensor_1d(&out, &one, TUTTI_I32);
    DLTensor from = tutti_tensor_1d(&in, &one, TUTTI_I32);
    if (status == TUTTI_OK && n > 1 && secret % 3 == 0) {
        status = r % 2 == 0 && r + 1 < n ? tutti_send(g, &to, r + 1, 0, TUTTI_CALL(.error = e))
                 : r % 2 == 1            ? tutti_recv(g, &from, r - 1, 0, TUTTI_CALL(.error = e), NULL)
                                         : TUTTI_OK;
        status = status == TUTTI_OK && r % 2 == 1 && in != secret * 1000 + r - 1 ? TUTTI_INTERNAL : status;
    }
    free(data);
    return status;
}

/* A group of some ranks of `parent`, by a mask; NULL if this rank is no member. */
static tutti_group *make(tutti_group *parent, unsigned mask, const tutti_config *config, tutti_status *status,
                         tutti_error *e)
{
    int32_t list[32];
    int32_t count = 0;
    tutti_group *g = NULL;
    for (int32_t r = 0; r < tutti_group_size(parent); r++) {
        if (mask >> r & 1) {
            list[count++] = r;
        }
    }
    *status = mask >> tutti_group_rank(parent) & 1 ? tutti_group_create(parent, list, count, config, &g, e) : TUTTI_OK;
    return g;
}

static void overlapping(void)
{
    tutti_status status;
    const unsigned all = (1U << ranks) - 1;
    for (int round = 0; round < repetitions(ROUNDS); round++) {
        for (unsigned mask = 1; mask <= all; mask++) {
            tutti_group *g = make(world, mask, NULL, &status, &err);
            EXPECT_OK(status);
            EXPECT(!g || use(g, (int32_t)mask + round, &err) == TUTTI_OK);
            EXPECT(!g || tutti_group_destroy(g, &err) == TUTTI_OK);
        }
    }
}

/* Each group is split off from the last one, which is destroyed at once. */
static void descending(void)
{
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_split(world, 0, -me, NULL, &g, &err));
    for (int i = 0; i < repetitions(ROUNDS) && failures == 0; i++) {
        tutti_group *next = NULL;
        EXPECT_OK(tutti_group_split(g, 7, i % 2 ? me : -me, NULL, &next, &err));
        EXPECT_OK(tutti_group_destroy(g, &err));
        EXPECT_OK(use(next, i, &err));
        EXPECT(tutti_group_global_rank(next, tutti_group_rank(next)) == me);
        g = next;
    }
    EXPECT_OK(tutti_group_destroy(g, &err));
}

/* One thread of each rank makes its own groups, beside the others. */
static void *beside(void *number)
{
    const int32_t thread = (int32_t)(intptr_t)number;
    int wrong = 0;
    tutti_error e;
    tutti_group *g = NULL;
    int32_t list[32];
    for (int32_t r = 0; r < ranks; r++) {
        list[r] = (r + thread) % ranks; /* another list for each thread */
    }
    for (int i = 0; i < repetitions(ROUNDS) && wrong == 0; i++) {
        wrong += tutti_group_create(world, list, ranks, NULL, &g, &e) != TUTTI_OK;
        wrong += wrong == 0 && use(g, 10 * thread + i, &e) != TUTTI_OK;
        wrong += wrong == 0 && tutti_group_destroy(g, &e) != TUTTI_OK;
    }
    if (wrong) {
        fprintf(stderr, "thread %d: %s\n", thread, e.message);
    }
    return (void *)(intptr_t)wrong;
}

static void parallel(void)
{
    pthread_t threads[THREADS];
    const int count = ranks < THREADS ? ranks : THREADS;
    for (int i = 0; i < count; i++) {
        EXPECT(pthread_create(&threads[i], NULL, beside, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < count; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        EXPECT(wrong == NULL);
    }
}

static void other_settings(void)
{
    const char *const window[] = {"engine.window=131072", NULL};
    const unsigned all = (1U << ranks) - 1;
    tutti_status status;
    for (int i = 0; i < 3; i++) {
        tutti_group *g = make(world, all, TUTTI_CONFIG(.settings = window), &status, &err);
        EXPECT_OK(status);
        EXPECT_OK(use(g, i, &err));
        EXPECT_OK(tutti_group_destroy(g, &err));
        EXPECT_ERROR(
            TUTTI_MISMATCH, "engine.window",
            (make(world, all, me == ranks - 1 ? TUTTI_CONFIG(.settings = window) : NULL, &status, &err), status));
        g = make(world, all, TUTTI_CONFIG(.timeout_ms = LONG_MS + me), &status, &err);
        EXPECT_OK(status);
        EXPECT_OK(use(g, i, &err));
        EXPECT_OK(tutti_group_destroy(g, &err));
    }
}

/* A member that does not join: all that have joined name it, and later ones can be made. */
static void missing(void)
{
    const unsigned all = (1U << ranks) - 1;
    tutti_status status = TUTTI_OK;
    if (me != 0) {
        EXPECT_ERROR(TUTTI_TIMEOUT, "missing: rank 0",
                     (make(world, all, TUTTI_CONFIG(.timeout_ms = 200), &status, &err), status));
        EXPECT(err.suspect == 0);
    }
    EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
    if (me == 0) { /* late: the others have gone on */
        EXPECT_ERROR(TUTTI_TIMEOUT, "missing: rank 0", (make(world, all, NULL, &status, &err), status));
    }
    tutti_group *g = make(world, all, NULL, &status, &err);
    EXPECT_OK(status);
    EXPECT_OK(use(g, 5, &err));
    EXPECT_OK(tutti_group_destroy(g, &err));
}

int main(void)
{
    tutti_group *last = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &world, &err));
    if (failures) {
        return 1;
    }
    ranks = tutti_group_size(world);
    me = tutti_group_rank(world);
    overlapping();
    descending();
    parallel();
    other_settings();
    missing();
    EXPECT_OK(tutti_group_split(world, me % 2, 0, NULL, &last, &err));
    EXPECT_OK(tutti_group_destroy(world, &err));
    EXPECT_OK(use(last, 1, &err));
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
