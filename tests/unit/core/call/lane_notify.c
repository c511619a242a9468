/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How often a lane notifies its worker: a persistent start of one small operation does not, since it has arrived; a
 * list that cannot end does once, however many of its operations wait behind the first one.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tutti/tutti.h>

#include "core/async/worker.h"
#include "core/group/group_table.h"

enum { RANKS = 2, COUNT = 8, RUNS = 50 };

struct shared {
    pthread_barrier_t before; /* rank 1 starts behind what rank 0 has counted */
    uint32_t most;            /* notifications of one start: of rank 0 */
    int failures[RANKS];
};

static uint32_t notified(tutti_group *handle)
{
    tutti_status why;
    struct tti_group *g = tti_group_acquire(handle, &why);
    /* relaxed: the counted notifications are those of this thread */
    const uint32_t count = atomic_load_explicit(&g->lane_queues[0].worker.doorbell, memory_order_relaxed);
    tti_group_release(g);
    return count;
}

static void run_once(tutti_group *group, struct shared *s, tutti_persistent *p, bool counts)
{
    const int32_t rank = tutti_group_rank(group);
    if (rank == 1) {
        pthread_barrier_wait(&s->before);
    }
    const uint32_t before = notified(group);
    s->failures[rank] += tutti_persistent_start(p, NULL) != TUTTI_OK;
    const uint32_t times = notified(group) - before;
    if (rank == 0) {
        s->most = counts && times > s->most ? times : s->most;
        pthread_barrier_wait(&s->before);
    }
    s->failures[rank] += tutti_persistent_wait(p, TUTTI_FOREVER, NULL) != TUTTI_OK;
}

static void start_again_and_again(tutti_group *group, struct shared *s, size_t count)
{
    static const int64_t one = 1;
    const int32_t rank = tutti_group_rank(group);
    int32_t values[COUNT];
    DLTensor tensors[COUNT];
    tutti_persistent_op list[COUNT];
    for (size_t i = 0; i < count; i++) {
        tensors[i] = tutti_tensor_1d(&values[i], &one, TUTTI_I32);
        list[i] = (tutti_persistent_op){
            .kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &tensors[i], .output = &tensors[i]};
    }
    tutti_persistent *p = NULL;
    if (tutti_persistent_init(group, list, count, NULL, &p) != TUTTI_OK) {
        s->failures[rank]++;
        return;
    }
    for (int run = 0; run < RUNS; run++) {
        for (size_t i = 0; i < count; i++) {
            values[i] = rank + run + (int32_t)i;
        }
        run_once(group, s, p, run > 0); /* the first start makes the works, and starts the worker */
        for (size_t i = 0; i < count; i++) {
            s->failures[rank] += values[i] != 2 * (run + (int32_t)i) + 1;
        }
    }
    s->failures[rank] += tutti_persistent_release(p, NULL) != TUTTI_OK;
}

static int32_t start_one(tutti_group *group, void *user)
{
    start_again_and_again(group, user, 1);
    return 0;
}

static int32_t start_list(tutti_group *group, void *user)
{
    start_again_and_again(group, user, COUNT);
    return 0;
}

/* The most notifications of a start. */
static uint32_t count_with(tutti_rank_function function)
{
    struct shared s = {.most = 0};
    assert_int_equal(pthread_barrier_init(&s.before, NULL, RANKS), 0);
    assert_int_equal(tutti_run_threads(RANKS, function, &s, NULL), TUTTI_OK);
    pthread_barrier_destroy(&s.before);
    assert_int_equal(s.failures[0] + s.failures[1], 0);
    return s.most;
}

static void test_one(void **state)
{
    (void)state;
    assert_int_equal(count_with(start_one), 0);
}

static void test_list(void **state)
{
    (void)state;
    assert_int_equal(count_with(start_list), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one), cmocka_unit_test(test_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
