/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wait registry: which rank waits in which collective. Ranks exchange records through a store: old ones, late ones,
 * and through stores that do not answer or have gone. The ranks are tables over one store here; multi.nccl_missing
 * tests the whole path.
 */
#include "core/membership/wait_registry.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* clang-format off: cmocka needs the ones above first */
#include <cmocka.h>
/* clang-format on */

#include "base/error.h"
#include "time_limits.h"

enum { RANKS = 4 };

struct job {
    struct tti_store *store;
    struct tti_wait_registry *ranks[RANKS];
};

static tutti_op call_of(tutti_operation kind, int32_t lane, int64_t sequence)
{
    return (tutti_op){.size = sizeof(tutti_op),
                      .kind = kind,
                      .dtype = TUTTI_F32,
                      .redop = TUTTI_SUM,
                      .lane = lane,
                      .sequence = sequence,
                      .count = 8};
}

static void job_open(struct job *job, const char *url)
{
    tutti_error error;
    assert_int_equal(tti_store_open(url, true, LONG_MS, &job->store, &error), TUTTI_OK);
    for (int32_t i = 0; i < RANKS; i++) {
        job->ranks[i] = tti_wait_registry_open(job->store, "g", i, RANKS);
        assert_non_null(job->ranks[i]);
    }
}

static void job_close(struct job *job)
{
    for (int32_t i = 0; i < RANKS; i++) {
        tti_wait_registry_close(job->ranks[i]);
    }
    tti_store_release(job->store);
}

static void report(struct tti_wait_registry *rank, const tutti_op *op, const tutti_error *failed)
{
    const tutti_wait_registry *table = tti_wait_registry_table(rank);
    table->report(table->self, op, failed);
}

/* Asks the registry which rank is missing, and expects this suspect and these words. */
static void expect(struct tti_wait_registry *rank, const tutti_op *op, int64_t timeout_ms, int32_t suspect,
                   const char *words)
{
    const tutti_wait_registry *table = tti_wait_registry_table(rank);
    tutti_error error;
    tti_error_set(&error, TUTTI_TIMEOUT, "it has not ended");
    table->find_missing(table->self, op, timeout_ms, &error);
    if (strncmp(error.message, "it has not ended", 16) != 0 || !strstr(error.message, words) ||
        error.suspect != suspect) {
        fail_msg("suspect %d instead of %d, \"%s\" without \"%s\"", error.suspect, suspect, error.message, words);
    }
}

/* Waits until a background thread has written the record: rank 3 polls until then. */
static void settle(struct job *job, const tutti_op *op)
{
    expect(job->ranks[3], op, LONG_MS, -1, "all ranks are in it");
}

static void test_all(void **state)
{
    const tutti_op op = call_of(TUTTI_OP_ALL_REDUCE, 1, 5);
    struct job job;
    (void)state;
    job_open(&job, "memory:waits-all");
    for (int i = 0; i < 3; i++) {
        report(job.ranks[i], &op, NULL);
    }
    settle(&job, &op);
    for (int i = 0; i < 3; i++) { /* rank 3 has written its record when it asked */
        expect(job.ranks[i], &op, LONG_MS, -1, ": all ranks are in it, so a device");
    }
    job_close(&job);
}

static void test_missing(void **state)
{
    const tutti_op op = call_of(TUTTI_OP_ALL_REDUCE, 0, 5);
    const tutti_op rooted = call_of(TUTTI_OP_GATHER, 0, 6);
    const tutti_op other_lane = call_of(TUTTI_OP_ALL_REDUCE, 2, 5);
    struct job job;
    (void)state;
    job_open(&job, "memory:waits-missing");
    report(job.ranks[2], &other_lane, NULL); /* which is another call */
    expect(job.ranks[1], &op, 10, 2, ": ranks 2, 3, 0 have not arrived");
    expect(job.ranks[3], &op, 10, 0, ": ranks 0, 2 have not arrived");
    expect(job.ranks[0], &op, 10, 2, ": rank 2 has not arrived");
    expect(job.ranks[1], &rooted, 10, 2, ": ranks 2, 3, 0 are not in it");
    expect(job.ranks[2], &rooted, 10, 3, ": ranks 3, 0 are not in it");
    expect(job.ranks[3], &rooted, 10, 0, ": rank 0 is not in it");
    job_close(&job);
}

/* A record of an earlier call does not count, and is removed. */
static void test_old(void **state)
{
    const tutti_op before = call_of(TUTTI_OP_BARRIER, 0, 1);
    const tutti_op op = call_of(TUTTI_OP_BARRIER, 0, 2);
    struct job job;
    char value[1024];
    size_t length;
    (void)state;
    job_open(&job, "memory:waits-old");
    for (int i = 0; i < 3; i++) {
        report(job.ranks[i], &before, NULL);
    }
    settle(&job, &before);
    assert_int_equal(tti_store_get(job.store, "g/note/0/1/3", value, sizeof(value), &length, 0, NULL), TUTTI_OK);
    expect(job.ranks[3], &op, 10, 0, ": ranks 0, 1, 2 have not arrived");
    assert_int_equal(tti_store_get(job.store, "g/note/0/1/3", value, sizeof(value), &length, 0, NULL), TUTTI_TIMEOUT);
    assert_int_equal(tti_store_get(job.store, "g/note/0/2/3", value, sizeof(value), &length, 0, NULL), TUTTI_OK);
    job_close(&job);
}

/* A rank whose record arrives while another rank polls counts as present. */
static void *notify_later(void *argument)
{
    const tutti_op op = call_of(TUTTI_OP_ALL_REDUCE, 0, 1);
    struct job *job = argument;
    usleep(50000);
    for (int i = 1; i < RANKS; i++) {
        report(job->ranks[i], &op, NULL);
    }
    return NULL;
}

static void test_late(void **state)
{
    const tutti_op op = call_of(TUTTI_OP_ALL_REDUCE, 0, 1);
    pthread_t thread;
    struct job job;
    (void)state;
    job_open(&job, "memory:waits-late");
    assert_int_equal(pthread_create(&thread, NULL, notify_later, &job), 0);
    expect(job.ranks[0], &op, LONG_MS, -1, ": all ranks are in it");
    pthread_join(thread, NULL);
    job_close(&job);
}

/* Ranks in different calls: each attribute that differs is reported. */
static void test_differs(void **state)
{
    static const struct {
        int32_t kind, dtype, redop, root;
        size_t count;
        const char *words; /* NULL: alike */
    } others[] = {
        {TUTTI_OP_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 8, NULL},
        {TUTTI_OP_BARRIER, 0, 0, 0, 0,
         "rank 1 is in barrier there, this rank in reduce of f32 by sum with root 0, 8 el"},
        {TUTTI_OP_REDUCE, TUTTI_I64, TUTTI_SUM, 0, 8,
         "rank 1 is in reduce of i64 by sum with root 0, 8 elements there"},
        {TUTTI_OP_REDUCE, TUTTI_F32, TUTTI_MAX, 0, 8,
         "rank 1 is in reduce of f32 by max with root 0, 8 elements there"},
        {TUTTI_OP_REDUCE, TUTTI_F32, TUTTI_SUM, 2, 8,
         "rank 1 is in reduce of f32 by sum with root 2, 8 elements there"},
        {TUTTI_OP_REDUCE, TUTTI_F32, TUTTI_SUM, 0, 9,
         "rank 1 is in reduce of f32 by sum with root 0, 9 elements there"},
        {TUTTI_OP_ALL_GATHER, TUTTI_F32, 0, 0, 8, "rank 1 is in all_gather of f32 there"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        tutti_op op = call_of(TUTTI_OP_REDUCE, 0, 1);
        tutti_op other = call_of(others[i].kind, 0, 1);
        struct job job;
        other.dtype = others[i].dtype;
        other.redop = others[i].redop;
        other.root = others[i].root;
        other.count = others[i].count;
        job_open(&job, "memory:waits-differs");
        report(job.ranks[1], &other, NULL);
        report(job.ranks[2], &op, NULL);
        report(job.ranks[3], &op, NULL);
        expect(job.ranks[0], &op, LONG_MS, others[i].words ? 1 : -1, others[i].words ? others[i].words : "all ranks");
        job_close(&job);
    }
}

/* A failure is reported before a difference, and both before a missing rank. A chunk is reported as the whole call. */
static void test_failed(void **state)
{
    const tutti_op whole = call_of(TUTTI_OP_ALL_REDUCE, 0, 1);
    tutti_op op = whole;
    const tutti_op other = call_of(TUTTI_OP_BARRIER, 0, 1);
    tutti_error error;
    struct job job;
    (void)state;
    op.whole = &whole;
    op.count = 3;
    job_open(&job, "memory:waits-failed");
    expect(job.ranks[1], &whole, 10, 2, ": ranks 2, 3, 0 have not arrived");
    expect(job.ranks[0], &op, 10, 2, ": ranks 2, 3 have not arrived");
    report(job.ranks[2], &other, NULL);
    expect(job.ranks[2], &other, 10, 0,
           ": rank 0 is in all_reduce of f32 by sum, 8 elements there, this rank in barrier");
    expect(job.ranks[0], &op, 10, 2, ": rank 2 is in barrier there, this rank in all_reduce");
    expect(job.ranks[0], &op, 10, 2, "; rank 3 has not arrived");
    tti_error_set(&error, TUTTI_BACKEND, "the cable is broken");
    report(job.ranks[3], &op, &error);
    expect(job.ranks[0], &op, LONG_MS, 3, ": rank 3 has failed in it: the cable is broken");
    job_close(&job);
}

/* ---- stores that do not answer ---- */

static _Atomic int held; /* calls that are held, until released is set */
static _Atomic int released;

static tutti_status hold(void)
{
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&released)) {
        usleep(1000);
    }
    return TUTTI_OK;
}

static tutti_status held_set(void *user, const char *key, const void *value, size_t length)
{
    (void)user;
    (void)key;
    (void)value;
    (void)length;
    return hold();
}

static tutti_status held_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                             int64_t timeout_ms)
{
    (void)user;
    (void)key;
    (void)value;
    (void)capacity;
    (void)timeout_ms;
    *length = 0;
    hold();
    return TUTTI_TIMEOUT;
}

static tutti_status lost_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                             int64_t timeout_ms)
{
    held_get(user, key, value, capacity, length, timeout_ms);
    return TUTTI_PEER_LEFT;
}

/* If the store does not answer, no function blocks for long: neither asking, nor reporting, nor closing. */
static void test_silent(void **state)
{
    const tutti_store_callbacks callbacks = {.size = sizeof(callbacks), .set = held_set, .get = held_get};
    const tutti_op op = call_of(TUTTI_OP_ALL_REDUCE, 0, 1);
    struct tti_store *store;
    (void)state;
    atomic_store(&released, 0);
    atomic_store(&held, 0);
    assert_int_equal(tti_store_open_callbacks(&callbacks, &store, NULL), TUTTI_OK);
    struct tti_wait_registry *a = tti_wait_registry_open(store, "g", 0, RANKS);
    tti_store_release(store);
    report(a, &op, NULL);
    expect(a, &op, 10, -1, ": which rank is missing is unknown: the store does not answer");
    assert_int_equal(atomic_load(&held), 1);
    tti_wait_registry_close(a);
    atomic_store(&released, 1); /* the background thread frees the rest */
}

static void test_gone(void **state)
{
    const tutti_store_callbacks callbacks = {.size = sizeof(callbacks), .set = held_set, .get = lost_get};
    const tutti_op op = call_of(TUTTI_OP_ALL_REDUCE, 0, 1);
    struct tti_store *store;
    (void)state;
    atomic_store(&released, 1);
    assert_int_equal(tti_store_open_callbacks(&callbacks, &store, NULL), TUTTI_OK);
    struct tti_wait_registry *a = tti_wait_registry_open(store, "g", 0, RANKS);
    tti_store_release(store);
    expect(a, &op, 10, -1, ": which rank is missing is unknown: ");
    tti_wait_registry_close(a);
    tti_wait_registry_close(NULL);
    assert_null(tti_wait_registry_table(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),    cmocka_unit_test(test_missing), cmocka_unit_test(test_old),
        cmocka_unit_test(test_late),   cmocka_unit_test(test_differs), cmocka_unit_test(test_failed),
        cmocka_unit_test(test_silent), cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
