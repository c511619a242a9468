/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=40 timeout=120 */
/*
 * The engine's protocols under stress: sleeping, with a bound so long that a lost wake-up is a hang, which the test
 * runner ends; reuse of ring slots and spans by ranks that run ahead of one another; a vector of many windows. And what
 * ranks do while they wait: they see that peers call something else, and copy their own part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>

#include "repetitions.h"
#include "unit/engine/engine_support.h"

#define HANG_NS INT64_C(3600000000000) /* bound of a sleep: an hour */

/* Every rank that waits sleeps at once: 20,000 barriers are as many chances to lose a wake-up. */
static int many_barriers(struct cluster *c, int rank)
{
    int failures = 0;
    for (int i = 0; i < 20000 / c->layout.size; i++) {
        tutti_error e;
        tutti_op op = op_of(TUTTI_OP_BARRIER, NULL, NULL, 0, 0);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
    }
    return failures;
}

static void no_wakeup_is_lost(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){0, 0, HANG_NS}), 0);
        assert_int_equal(cluster_run(&c, many_barriers), 0);
        cluster_close(&c);
    }
}

/* In rooted calls the root runs ahead as far as ring and stage allow; then it must wait, not overwrite. */
static int broadcasts_in_a_row(struct cluster *c, int rank)
{
    static const size_t counts[] = {1, 25, 26, 100, 4096, 5000};
    int failures = 0;
    int32_t data[5000];
    const int calls = repetitions(200); /* to each of three roots */
    for (int i = 0; i < 3 * calls; i++) {
        size_t count = counts[i % 6];
        int root = i / calls % c->layout.size;
        for (size_t k = 0; k < count; k++) {
            data[k] = rank == root ? i * 7919 + (int32_t)k : -1;
        }
        tutti_error e;
        tutti_op op = op_of(TUTTI_OP_BROADCAST, NULL, data, count, root);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        for (size_t k = 0; k < count; k++) {
            failures += data[k] != i * 7919 + (int32_t)k;
        }
    }
    return failures;
}

static int reduces_in_a_row(struct cluster *c, int rank)
{
    static const size_t counts[] = {3, 4500, 30, 9000};
    int failures = 0;
    int32_t in[9000];
    int32_t out[9000];
    for (int i = 0; i < repetitions(400); i++) {
        size_t count = counts[i % 4];
        int root = i % 3 % c->layout.size;
        for (size_t k = 0; k < count; k++) {
            in[k] = i + (int32_t)k * (rank + 1);
        }
        tutti_error e;
        tutti_op op = op_of(TUTTI_OP_REDUCE, in, rank == root ? out : NULL, count, root);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        int32_t weights = c->layout.size * (c->layout.size + 1) / 2;
        for (size_t k = 0; rank == root && k < count; k++) {
            failures += out[k] != c->layout.size * i + (int32_t)k * weights;
        }
    }
    return failures;
}

/* From so many bytes on. */
static void slice_reduces(struct cluster *c, uint64_t bytes)
{
    for (int r = 0; r < c->layout.size; r++) {
        c->engines[r]->tuning.reduce_sliced = bytes;
    }
}

static void run_ahead(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){1000, 20000, HANG_NS}), 0);
        assert_int_equal(cluster_run(&c, broadcasts_in_a_row), 0);
        assert_int_equal(cluster_run(&c, reduces_in_a_row), 0);
        slice_reduces(&c, 20000); /* the longer ones */
        assert_int_equal(cluster_run(&c, reduces_in_a_row), 0);
        cluster_close(&c);
    }
}

/* all_reduces, then reduces by slices to each rank in turn. */
static int long_vector(struct cluster *c, int rank)
{
    enum { COUNT = 200003 };
    int32_t *in = malloc(COUNT * sizeof(*in));
    int32_t *out = malloc(COUNT * sizeof(*out));
    int failures = in && out ? 0 : 1;
    for (int round = 0; failures == 0 && round < 3 + c->layout.size; round++) {
        for (int k = 0; k < COUNT; k++) {
            in[k] = k * (rank + 1) + round;
        }
        tutti_error e;
        const bool to_root = round >= 3;
        const bool has_output = !to_root || rank == round - 3;
        tutti_op op = op_of(to_root ? TUTTI_OP_REDUCE : TUTTI_OP_ALL_REDUCE, in, has_output ? out : NULL, COUNT,
                            to_root ? round - 3 : 0);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_OK;
        int32_t weights = c->layout.size * (c->layout.size + 1) / 2;
        for (int k = 0; has_output && k < COUNT; k++) {
            failures += out[k] != (int32_t)((uint32_t)k * (uint32_t)weights) + c->layout.size * round;
        }
    }
    free(in);
    free(out);
    return failures;
}

static void many_windows(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, 1, 16384, (struct waiting){1000, 20000, HANG_NS}), 0);
        slice_reduces(&c, 0);
        assert_int_equal(cluster_run(&c, long_vector), 0);
        cluster_close(&c);
    }
}

/* Rank 1 aborts in the middle of a long call. Rank 0 is only slower. It must not take old bytes in the stage for
 * data: a rank that returns OK has the right result. */
static int impatient(struct cluster *c, int rank, tutti_operation kind)
{
    enum { COUNT = 1 << 20 };
    int32_t *in = malloc(COUNT * sizeof(*in));
    int32_t *out = malloc(COUNT * sizeof(*out));
    int failures = in && out ? 0 : 1;
    for (int k = 0; failures == 0 && k < COUNT; k++) {
        in[k] = k + rank;
    }
    tutti_error e;
    tutti_op op = op_of(kind, in, out, COUNT, 0);
    op.timeout_ms = rank == 1 ? 1 : LONG_MS;
    tutti_status status = failures == 0 ? tti_engine_run(c->engines[rank], &op, &e) : TUTTI_INTERNAL;
    const bool has_output = kind == TUTTI_OP_ALL_REDUCE || rank == 0;
    for (int k = 0; has_output && status == TUTTI_OK && k < COUNT; k++) {
        failures += out[k] != 2 * k + 1;
    }
    /* REVOKED: rank 1 gave up before this rank began */
    failures += status != TUTTI_OK && status != TUTTI_TIMEOUT && status != TUTTI_REVOKED;
    free(in);
    free(out);
    return failures;
}

static int impatient_all_reduce(struct cluster *c, int rank)
{
    return impatient(c, rank, TUTTI_OP_ALL_REDUCE);
}

static int impatient_reduce(struct cluster *c, int rank)
{
    return impatient(c, rank, TUTTI_OP_REDUCE);
}

static void failed_ranks_are_not_believed(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){0, 0, 0}), 0);
        slice_reduces(&c, 0);
        assert_int_equal(cluster_run(&c, round % 2 == 0 ? impatient_all_reduce : impatient_reduce), 0);
        cluster_close(&c);
    }
}

/* One rank sends packets, the other runs a call without packets. Both spin as long as a counter can count. */
static int call_different_things(struct cluster *c, int rank)
{
    int failures = 0;
    int32_t data[40] = {0};
    c->engines[rank]->spin_polls = UINT_MAX;
    for (int i = 0; i < 20; i++) {
        tutti_error e;
        tutti_op op = op_of(i % 2 == rank ? TUTTI_OP_BARRIER : TUTTI_OP_ALL_REDUCE, data, data, 40, 0);
        failures += tti_engine_run(c->engines[rank], &op, &e) != TUTTI_MISMATCH;
    }
    return failures;
}

static void packets_that_do_not_come(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    assert_true(c.engines[0]->tuning.packets >= 40 * sizeof(int32_t));
    assert_int_equal(cluster_run(&c, call_different_things), 0);
    cluster_close(&c);
}

/* The root waits for ranks that never come. Its own part is in place by then: at least `least` bytes. */
static void own_part_is_copied_first(tutti_operation kind, bool direct, size_t bytes, size_t least)
{
    struct cluster c;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    const bool gather = kind == TUTTI_OP_GATHER;
    unsigned char *in = malloc(bytes * 2);
    unsigned char *out = calloc(2, bytes);
    memset(in, 7, bytes);
    memset(in + bytes, 9, bytes);
    tutti_op op = op_of(kind, in, out, bytes / sizeof(int32_t), 1);
    const tutti_parts parts = {.outer = 1, .pitch = bytes * 2, .unit = sizeof(int32_t), .each = op.count};
    *(gather ? &op.recv_parts : &op.send_parts) = parts;
    op.timeout_ms = 1;
    tutti_error e;
    c.engines[1]->direct = direct;
    assert_int_equal(tti_engine_run(c.engines[1], &op, &e), TUTTI_TIMEOUT);
    const unsigned char *mine = gather ? out + bytes : out;
    for (size_t i = 0; i < least; i++) {
        assert_int_equal(mine[i], gather ? 7 : 9);
    }
    free(in);
    free(out);
    cluster_close(&c);
}

static void roots_do_not_idle(void **state)
{
    (void)state;
    own_part_is_copied_first(TUTTI_OP_GATHER, false, 400000, 4096);
    own_part_is_copied_first(TUTTI_OP_GATHER, true, 400000, 4096);
    own_part_is_copied_first(TUTTI_OP_SCATTER, true, 400000, 400000);
    own_part_is_copied_first(TUTTI_OP_SCATTER, false, 400000, 4096); /* more than the stage holds */
}

static void ring_rotates_by_rank(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 4, 1, 16384, (struct waiting){0, 0, 0}), 0);
    for (int r = 0; r < 4; r++) {
        uintptr_t line = (uintptr_t)tti_arrival_of(&c.engines[0]->lanes[0], r, 32);
        assert_int_equal(line % 4096, r * 128);
    }
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wakeup_is_lost),
        cmocka_unit_test(run_ahead),
        cmocka_unit_test(many_windows),
        cmocka_unit_test(failed_ranks_are_not_believed),
        cmocka_unit_test(packets_that_do_not_come),
        cmocka_unit_test(roots_do_not_idle),
        cmocka_unit_test(ring_rotates_by_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
