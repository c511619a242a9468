/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps that fail, and calls from several threads. tutti_bucketer_wait names the failure and the bucket, the next step
 * returns the state of the group, and destroy always works.
 */
#include <pthread.h>

#include "api/check.h"
#include "clock.h"

#define RANKS     3
#define GRADIENTS 3

static const int64_t eight = 8;
static const int32_t all[RANKS] = {0, 1, 2};

/* Three gradients; each is a bucket of its own if bucket_bytes is 1. They lie apart, so their buckets are packed. */
struct model {
    float data[GRADIENTS][16];
    DLTensor tensor[GRADIENTS];
    const DLTensor *list[GRADIENTS];
};

static tutti_bucketer *create(tutti_group *g, struct model *m, const tutti_bucketer_options *options)
{
    tutti_bucketer *b = NULL;
    for (int i = 0; i < GRADIENTS; i++) {
        for (int e = 0; e < 16; e++) {
            m->data[i][e] = (float)(tutti_group_rank(g) + i);
        }
        m->tensor[i] = tutti_tensor_1d(m->data[i], &eight, TUTTI_F32);
        m->list[i] = &m->tensor[i];
    }
    EXPECT_OK(tutti_bucketer_create(g, m->list, GRADIENTS, options, &b, NULL));
    return b;
}

/* The last rank starts one bucket of three only: the others time out in the second bucket. */
static void missing_rank(tutti_group *world)
{
    static _Atomic int ended;
    int32_t me = tutti_group_rank(world);
    tutti_error e;
    tutti_group *g = NULL;
    struct model m;
    EXPECT_OK(tutti_group_create(world, all, RANKS, NULL, &g, NULL));
    tutti_bucketer *b = create(g, &m, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = 1, .timeout_ms = 300));
    EXPECT_OK(tutti_bucketer_ready(b, 2, &e));
    if (me == RANKS - 1) {
        EXPECT(await_count(&ended, RANKS - 1));
    } else {
        EXPECT_OK(tutti_bucketer_ready(b, 0, &e)); /* waits for its turn */
        tutti_status status = tutti_bucketer_wait(b, &e);
        EXPECT(status >= TUTTI_TIMEOUT && status == e.status && e.rank == me && strstr(e.message, " of 3 (gradients "));
        /* a rank that reports a timeout names another rank; a slow rank may have failed in bucket 0 already */
        EXPECT(status != TUTTI_TIMEOUT || e.suspect != me);
        /* the next step: the group has failed */
        status = tutti_bucketer_ready(b, 2, &e);
        EXPECT(status == TUTTI_OK || status == TUTTI_REVOKED);
        EXPECT_ERROR(&e, TUTTI_REVOKED, "bucket 0 of 3", tutti_bucketer_wait(b, &e));
        EXPECT_ERROR(&e, TUTTI_REVOKED, "bucket 0 of 3", tutti_bucketer_wait(b, &e));
        atomic_fetch_add(&ended, 1);
    }
    EXPECT_OK(tutti_bucketer_destroy(b, &e)); /* for the last rank with a bucket under way */
    EXPECT_OK(tutti_group_destroy(g, &e));
}

/* Ranks register different models with buckets of equal size: each of them gets the error, and no memory is written. */
static void different_models(tutti_group *g)
{
    int32_t me = tutti_group_rank(g);
    tutti_error e;
    struct model m;
    tutti_bucketer *b = create(g, &m, NULL);
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
    const int64_t halves[2] = {me == 1 ? 4 : 8, me == 1 ? 12 : 8};
    const DLTensor tensor[2] = {tutti_tensor_1d(m.data[0], &halves[0], TUTTI_F32),
                                tutti_tensor_1d(m.data[1], &halves[1], TUTTI_F32)};
    const DLTensor *list[2] = {&tensor[0], &tensor[1]};
    EXPECT_OK(tutti_bucketer_create(g, list, 2, NULL, &b, &e));
    for (int step = 0; step < 2; step++) {
        EXPECT_OK(tutti_bucketer_ready(b, 1, &e));
        EXPECT_ERROR(&e, TUTTI_MISMATCH, "bucket 0 of 1 (gradients 0 to 1)", tutti_bucketer_wait(b, &e));
        EXPECT(m.data[0][0] == (float)me && m.data[1][3] == (float)(me + 1));
        EXPECT_USABLE(g);
    }
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
}

/* A step without its wait: destroy waits for the buckets that have started, here one that is reduced in place. */
static void unfinished_step(tutti_group *g)
{
    static float memory[RANKS][200000];
    float *data = memory[tutti_group_rank(g)];
    int64_t counts[2] = {1, 199999};
    const DLTensor tensor[2] = {tutti_tensor_1d(data, &counts[0], TUTTI_F32),
                                tutti_tensor_1d(data + 1, &counts[1], TUTTI_F32)};
    const DLTensor *list[2] = {&tensor[0], &tensor[1]};
    tutti_error e;
    tutti_bucketer *b = NULL;
    for (int i = 0; i < 200000; i++) {
        data[i] = 1;
    }
    EXPECT_OK(tutti_bucketer_create(g, list, 2, TUTTI_BUCKETER_OPTIONS(.op = TUTTI_SUM, .bucket_bytes = 1), &b, &e));
    EXPECT_OK(tutti_bucketer_ready(b, 1, &e));
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
    EXPECT(data[0] == 1 && data[1] == RANKS && data[100000] == RANKS && data[199999] == RANKS);
    EXPECT_USABLE(g);
}

/* A bucket that cannot be started (a batch of messages is open) stops the step, not the next one. */
static void not_started(tutti_group *g)
{
    tutti_error e;
    struct model m;
    tutti_bucketer *b = create(g, &m, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = 1));
    EXPECT_OK(tutti_batch_begin(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "bucketer: bucket 0 of 3 (gradients 2 to 2): ", tutti_bucketer_ready(b, 2, &e));
    EXPECT_OK(tutti_batch_end(g, NULL));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "bucketer: bucket 0 of 3", tutti_bucketer_ready(b, 1, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "bucketer: bucket 0 of 3", tutti_bucketer_wait(b, &e));
    EXPECT(m.data[2][0] == (float)(tutti_group_rank(g) + 2));
    EXPECT_OK(tutti_bucketer_ready(b, 2, &e));
    EXPECT_OK(tutti_bucketer_wait(b, &e));
    EXPECT(m.data[2][0] == 3 && m.data[0][7] == 1);
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
}

/* The group may go first. */
static void group_gone(tutti_group *world)
{
    tutti_error e;
    tutti_group *g = NULL;
    struct model m;
    EXPECT_OK(tutti_group_create(world, all, RANKS, NULL, &g, NULL));
    tutti_bucketer *b = create(g, &m, NULL);
    EXPECT_OK(tutti_bucketer_wait(b, &e));
    EXPECT_OK(tutti_group_destroy(g, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "bucket 0 of 1", tutti_bucketer_wait(b, &e));
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
}

struct visit {
    tutti_bucketer *b;
    _Atomic int over;
};

/* Runs in a callback: a callback may report gradients, but not wait. */
static void visit(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    struct visit *v = user;
    tutti_error e;
    EXPECT(status == TUTTI_OK);
    EXPECT_OK(tutti_bucketer_ready(v->b, 2, &e));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "bucketer_wait", tutti_bucketer_wait(v->b, &e));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "bucketer_destroy", tutti_bucketer_destroy(v->b, &e));
    atomic_store(&v->over, 1);
}

static void in_callback(tutti_group *g)
{
    tutti_error e;
    struct model m;
    struct visit v = {.b = create(g, &m, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = 1))};
    int64_t one = 1;
    float number = 1;
    DLTensor t = tutti_tensor_1d(&number, &one, TUTTI_F32);
    tutti_work *work = NULL;
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.callback = visit, .user = &v), &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    EXPECT(atomic_load(&v.over) == 1 && number == RANKS);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "already", tutti_bucketer_ready(v.b, 2, &e)); /* the step has gone on */
    EXPECT_OK(tutti_bucketer_wait(v.b, &e));
    EXPECT(m.data[2][0] == 3 && m.data[0][0] == 1);
    EXPECT_OK(tutti_bucketer_destroy(v.b, &e));
}

struct waiter {
    tutti_bucketer *b;
    pthread_t thread;
};

static void *wait_in_thread(void *user)
{
    struct waiter *w = user;
    tutti_status status;
    do { /* BUSY while the other thread uses the bucketer */
        status = tutti_bucketer_wait(w->b, NULL);
    } while (status == TUTTI_BUSY);
    EXPECT_OK(status);
    return NULL;
}

/* While a thread waits in the bucketer, other threads get BUSY. Rank 0 has such a thread, and the other ranks arrive
 * when it has got BUSY. */
static void two_threads(tutti_group *g)
{
    static _Atomic int seen;
    tutti_error e;
    struct model m;
    struct waiter w = {.b = create(g, &m, NULL)};
    if (tutti_group_rank(g) == 0) {
        EXPECT(pthread_create(&w.thread, NULL, wait_in_thread, &w) == 0);
        tutti_status status = TUTTI_OK;
        while (status == TUTTI_OK) {
            status = tutti_bucketer_describe(w.b, NULL, NULL, &e);
        }
        EXPECT(status == TUTTI_BUSY && e.status == TUTTI_BUSY &&
               strstr(e.message, "bucketer_describe: another thread"));
        EXPECT_ERROR(&e, TUTTI_BUSY, "bucketer_ready: another thread", tutti_bucketer_ready(w.b, 0, &e));
        EXPECT_ERROR(&e, TUTTI_BUSY, "bucketer_destroy: another thread", tutti_bucketer_destroy(w.b, &e));
        atomic_store(&seen, 1);
        EXPECT(pthread_join(w.thread, NULL) == 0);
    } else {
        EXPECT(await_count(&seen, 1));
        EXPECT_OK(tutti_bucketer_wait(w.b, &e));
    }
    EXPECT(m.data[0][0] == 1 && m.data[2][7] == 3 && m.data[2][8] == (float)(tutti_group_rank(g) + 2));
    EXPECT_OK(tutti_bucketer_destroy(w.b, &e));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    missing_rank(g);
    different_models(g);
    unfinished_step(g);
    not_started(g);
    group_gone(g);
    in_callback(g);
    two_threads(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
