/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * Zero copy: right results without staging, and no rank touches memory whose owner has returned. For the second, ranks
 * abort in the middle of a large call, fill their buffers with a pattern at once, and check it while their peers are
 * still in the call. A rank whose call has ended well may change its tensors at once, too. Also which ranks write past
 * the caches: all alike, but never over the input that they have just read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sched.h>
#include <unistd.h>

#include "repetitions.h"
#include "unit/engine/engine_calls.h"

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
    failures += c->engines[rank]->lanes[0].stage->head != 0; /* no span was used */
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

/* The same call on all ranks, on tensors of COUNT elements, or in a gather parts of that; root 0, in place. */
static tutti_op in_place(const struct cluster *c, tutti_operation kind, int32_t *x)
{
    const size_t each = COUNT / (size_t)c->layout.size;
    tutti_op op = op_of(kind, x, x, kind == TUTTI_OP_GATHER ? each : COUNT, 0);
    op.recv_parts = (tutti_parts){
        .outer = 1, .pitch = COUNT * sizeof(*x), .unit = sizeof(*x), .each = (int64_t)each, .counts = NULL};
    return op;
}

static _Atomic int gave_up;
static tutti_operation kind_of_test;

/* The rank whose output others write aborts after 1 ms. The last rank comes later in each call, until the time that it
 * copies falls on that. */
static int give_up(struct cluster *c, int rank)
{
    const bool aborts = rank == (kind_of_test == TUTTI_OP_GATHER ? 0 : 1);
    const bool is_late = rank == (kind_of_test == TUTTI_OP_BROADCAST ? 0 : 3);
    int failures = 0;
    int32_t *x = malloc(COUNT * sizeof(*x));
    memset(x, 1, COUNT * sizeof(*x));
    tutti_status status = TUTTI_OK;
    for (int call = 0; call < 50 && status == TUTTI_OK; call++) {
        tutti_error e;
        tutti_op op = in_place(c, kind_of_test, x);
        op.timeout_ms = aborts ? 1 : LONG_MS;
        if (is_late) {
            usleep(600 + (unsigned)call * 10);
        }
        status = tti_engine_run(c->engines[rank], &op, &e);
        if (status == TUTTI_OK && !aborts) {
            sched_yield();
        }
    }
    if (status != TUTTI_OK) {
        atomic_fetch_add(&gave_up, 1);
        memset(x, 0x5a, COUNT * sizeof(*x));
        for (int look = 0; look < repetitions(20); look++) {
            sched_yield();
            for (int k = 0; k < COUNT; k++) {
                failures += x[k] != 0x5a5a5a5a;
            }
        }
    }
    free(x);
    return failures;
}

static void open_direct(struct cluster *c, int size, double ranks_per_cpu)
{
    assert_int_equal(cluster_open(c, size, 1, 16384, (struct waiting){0, 0, 0}), 0);
    set_direct(c);
    for (int r = 0; r < size; r++) {
        c->engines[r]->ranks_per_cpu = ranks_per_cpu;
    }
}

static void gives_up(int size, tutti_operation kind)
{
    kind_of_test = kind;
    atomic_store(&gave_up, 0);
    /* a round may end before a rank aborts: then it does not count */
    for (int round = 0; round < 500 && atomic_load(&gave_up) < repetitions(40); round++) {
        struct cluster c;
        open_direct(&c, size, 1);
        assert_int_equal(cluster_run(&c, give_up), 0);
        cluster_close(&c);
    }
    assert_true(atomic_load(&gave_up) > 0); /* otherwise nothing was tested */
}

static void returned_memory_is_left_alone(void **state)
{
    (void)state;
    gives_up(4, TUTTI_OP_ALL_REDUCE);
    gives_up(4, TUTTI_OP_GATHER);
    gives_up(2, TUTTI_OP_BROADCAST);
}

/* Rank r's number in so many calls, which no element has otherwise. */
static int32_t number_of(int call, int rank)
{
    return 1000 * (call + 1) + rank;
}

static int change_at_once(struct cluster *c, int rank)
{
    const bool gathers = kind_of_test == TUTTI_OP_GATHER;
    const int each = gathers ? COUNT / c->layout.size : COUNT;
    int failures = 0;
    int32_t *x = calloc(COUNT, sizeof(*x));
    for (int call = 0; call < repetitions(100); call++) {
        tutti_error e;
        tutti_op op = in_place(c, kind_of_test, x);
        for (int k = 0; k < each; k++) {
            x[k] = number_of(call, rank);
        }
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        const bool receives = gathers == (rank == 0);
        for (int k = COUNT - 1; receives && k >= 0; k--) { /* what the others write comes last */
            failures += x[k] != number_of(call, k / each);
        }
        memset(x, 0, COUNT * sizeof(*x));
    }
    free(x);
    return failures;
}

static void tensors_may_change_at_once(void **state)
{
    (void)state;
    static const tutti_operation kinds[] = {TUTTI_OP_GATHER, TUTTI_OP_BROADCAST};
    for (int i = 0; i < 8; i++) {
        struct cluster c;
        kind_of_test = kinds[i % 2];
        open_direct(&c, i < 4 ? 2 : 4, i % 4 < 2 ? 1 : 2); /* the root shares the work, or not */
        assert_int_equal(cluster_run(&c, change_at_once), 0);
        cluster_close(&c);
    }
}

static int streamed(struct cluster *c, int rank)
{
    static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE,    TUTTI_OP_REDUCE,  TUTTI_OP_ALL_GATHER,
                                            TUTTI_OP_GATHER,        TUTTI_OP_SCATTER, TUTTI_OP_ALL_TO_ALL,
                                            TUTTI_OP_REDUCE_SCATTER};
    int failures = 0;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            struct reference_call call = {.kind = kinds[k],
                                          .dtype = TUTTI_F32,
                                          .size = c->layout.size,
                                          .root = 1,
                                          .rows = 1,
                                          .count = 5000,
                                          .in_place = in_place && kinds[k] != TUTTI_OP_ALL_TO_ALL};
            failures += run_call(c->engines[rank], 0, &call, NULL);
            const bool folds = kinds[k] == TUTTI_OP_ALL_REDUCE || kinds[k] == TUTTI_OP_REDUCE_SCATTER ||
                               (kinds[k] == TUTTI_OP_REDUCE && rank == call.root);
            if (c->engines[rank]->lanes[0].streams != !(folds && call.in_place)) {
                fprintf(stderr, "rank %d: %s%s goes %s the caches\n", rank, tutti_operation_name(kinds[k]),
                        in_place ? " in place" : "", c->engines[rank]->lanes[0].streams ? "past" : "through");
                failures++;
            }
        }
    }
    return failures;
}

static void only_folds_in_place_stay_in_the_caches(void **state)
{
    (void)state;
    for (int direct = 0; direct < 2; direct++) {
        struct cluster c;
        struct tti_tuning_overrides wishes = no_overrides;
        wishes.window = 16384;
        wishes.stream = 0;
        struct tti_tuning tuning = built_in_tuning(3, &wishes);
        assert_int_equal(cluster_open_tuned(&c, 3, 1, tuning, (struct waiting){1000, 20000, 0}), 0);
        if (direct) {
            set_direct(&c);
        }
        assert_int_equal(cluster_run(&c, streamed), 0);
        cluster_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_staged),
        cmocka_unit_test(returned_memory_is_left_alone),
        cmocka_unit_test(tensors_may_change_at_once),
        cmocka_unit_test(only_folds_in_place_stay_in_the_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
