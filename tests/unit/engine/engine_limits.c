/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What positions cannot count: a call of more steps than it has phases, and calls beyond the last number. Each is an
 * error on every rank, before a tensor is touched, and what can still be counted goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unit/engine/engine_support.h"

enum { RANKS = 3, WINDOW = 16384, LARGE = 20000 };

static const tutti_operation kinds[] = {
    TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,  TUTTI_OP_BROADCAST,      TUTTI_OP_ALL_GATHER,
    TUTTI_OP_GATHER,     TUTTI_OP_SCATTER, TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_ALL_TO_ALL,
};

static bool sums(struct tti_engine *e, size_t count, tutti_status want)
{
    static const char word[] = "make a new group";
    int32_t in[LARGE];
    int32_t out[LARGE];
    for (size_t i = 0; i < count; i++) {
        in[i] = (int32_t)i;
        out[i] = -1;
    }
    tutti_error error;
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, in, out, count, 0);
    const tutti_status status = tti_engine_run(e, &op, &error);
    bool right = status == want && (want == TUTTI_OK || strstr(error.message, word));
    for (size_t i = 0; i < count && want == TUTTI_OK; i++) {
        right = right && out[i] == RANKS * (int32_t)i;
    }
    return right;
}

/* The tensors have more bytes than there is memory. */
static int too_many_steps(struct cluster *c, int rank)
{
    struct tti_engine *e = c->engines[rank];
    const size_t count = (size_t)TTI_PHASE_NEXT * WINDOW;
    int32_t here[4] = {0};
    int failures = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        tutti_error error;
        tutti_op op = op_of(kinds[i], here, here, count, 1);
        op.send_parts = (tutti_parts){.outer = 1, .unit = sizeof(int32_t), .each = (int64_t)count};
        op.recv_parts = op.send_parts;
        if (op.kind == TUTTI_OP_GATHER && rank == op.root) { /* in place: else the root copies its own part first */
            op.src = (const void *)((uintptr_t)op.dst + (size_t)rank * count * sizeof(int32_t));
        }
        const tutti_status status = tti_engine_run(e, &op, &error);
        if (status != TUTTI_UNSUPPORTED || !strstr(error.message, "engine.window")) {
            fprintf(stderr, "rank %d: %s: %s: %s\n", rank, tutti_operation_name(kinds[i]), tutti_status_name(status),
                    error.message);
            failures++;
        }
        failures += !sums(e, LARGE, TUTTI_OK);
    }
    return failures;
}

static void steps(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, RANKS, 1, WINDOW, (struct waiting){1000, 20000, 0}), 0);
    assert_int_equal(cluster_run(&c, too_many_steps), 0);
    cluster_close(&c);
}

/* Small calls publish no positions. */
static int past_the_last_number(struct cluster *c, int rank)
{
    struct tti_engine *e = c->engines[rank];
    int failures = 0;
    for (int i = 0; i < 3; i++) {
        failures += !sums(e, LARGE, TUTTI_OK);
    }
    for (int i = 0; i < 3; i++) {
        failures += !sums(e, LARGE, TUTTI_NO_RESOURCE) + !sums(e, 2, TUTTI_OK);
    }
    return failures;
}

static void calls(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, RANKS, 1, WINDOW, (struct waiting){1000, 20000, 0}), 0);
    for (int r = 0; r < RANKS; r++) {
        c.engines[r]->lanes[0].call = TTI_CALLS_MOST - 3;
        c.engines[r]->lanes[0].credit = TTI_CALLS_MOST - 3;
    }
    assert_int_equal(cluster_run(&c, past_the_last_number), 0);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps), cmocka_unit_test(calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
