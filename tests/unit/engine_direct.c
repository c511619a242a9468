/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * The zero-copy class: right results without staging, and nobody touches memory whose owner has returned. The second is
 * tested by ranks that give up in the middle of a large call, fill their buffers with a pattern at once and look at it
 * while the others are still inside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sched.h>

#include "unit/engine_support.h"

enum { COUNT = 1 << 19 }; /* 2 MiB a rank */

static int sums(struct cluster *c, int rank)
{
    int failures = 0;
    int32_t *x = malloc(COUNT * sizeof(*x));
    for (int root = -1; root < c->layout.size; root++) {
        size_t count = COUNT - 17 * (size_t)(root + 1);
        for (size_t k = 0; k < count; k++) {
            x[k] = (int32_t)k % 1000 * (rank + 1);
        }
        tutti_error e;
        tutti_op op = op_of(root < 0 ? TUTTI_OP_ALL_REDUCE : TUTTI_OP_REDUCE, x, x, count, root);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        int32_t weights = c->layout.size * (c->layout.size + 1) / 2;
        bool here = root < 0 || root == rank;
        for (size_t k = 0; here && k < count; k++) {
            failures += x[k] != (int32_t)k % 1000 * weights;
        }
    }
    failures += c->engines[rank]->lanes[0].stage.head != 0; /* no span was ever used */
    free(x);
    return failures;
}

static void set_direct(struct cluster *c)
{
    for (int r = 0; r < c->layout.size; r++) {
        c->engines[r]->direct = true;
    }
}

static void nothing_is_staged(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
        set_direct(&c);
        assert_int_equal(cluster_run(&c, sums), 0);
        cluster_close(&c);
    }
}

static _Atomic int gave_up;

static int give_up(struct cluster *c, int rank)
{
    int failures = 0;
    int32_t *x = malloc(COUNT * sizeof(*x));
    memset(x, 1, COUNT * sizeof(*x));
    tutti_status status = TUTTI_OK;
    for (int call = 0; call < 50 && status == TUTTI_OK; call++) {
        tutti_error e;
        tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, x, x, COUNT, 0);
        op.timeout_ms = rank == 1 ? 1 : 60000; /* rank 1 has no patience */
        status = tti_engine_run(c->engines[rank], &op, &e);
        if (status == TUTTI_OK && rank != 1) {
            sched_yield();
        }
    }
    if (status != TUTTI_OK) {
        atomic_fetch_add(&gave_up, 1);
        memset(x, 0x5a, COUNT * sizeof(*x));
        for (int look = 0; look < 20; look++) {
            sched_yield();
            for (int k = 0; k < COUNT; k++) {
                failures += x[k] != 0x5a5a5a5a;
            }
        }
    }
    free(x);
    return failures;
}

static void returned_memory_is_left_alone(void **state)
{
    (void)state;
    /* on an idle machine a round may end before anybody loses patience: then it has tested nothing, and does not count */
    for (int round = 0; round < 500 && atomic_load(&gave_up) < 40; round++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, 4, 1, 16384, (struct waiting){0, 0, 0}), 0);
        set_direct(&c);
        assert_int_equal(cluster_run(&c, give_up), 0);
        cluster_close(&c);
    }
    assert_true(atomic_load(&gave_up) > 0); /* otherwise nothing was tested */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_staged),
        cmocka_unit_test(returned_memory_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
