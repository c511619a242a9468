/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=30 */
/*
 * The same all_reduce again and again, in every number of bytes that fits the arrival lines, with an operation that the
 * engine has prepared before. Each rank draws how it makes a call: with the prepared operation, with a new one, or in
 * two steps. In some calls one rank reduces otherwise. Then all ranks get MISMATCH, and the next call is right again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unit/engine/engine_support.h"

#define ROUNDS 3000
#define MOST   (TTI_PAYLOAD + 8) /* the last sizes need packets, or a stage */

static uint64_t number(uint64_t a, uint64_t b)
{
    uint64_t h = (a * 0x9e3779b97f4a7c15 ^ b) * 0xbf58476d1ce4e5b9;
    h = (h ^ h >> 31) * 0x94d049bb133111eb;
    return h ^ h >> 29;
}

/* Sums of all ranks fit a byte. */
static uint8_t value_of(int rank, int round, size_t i)
{
    return (uint8_t)(number((uint64_t)rank << 32 | (uint64_t)round, i) % 31);
}

/* A call that starts with the arrival, and ends with the rest, if it can start. */
static tutti_status in_two_steps(struct tti_engine *e, tutti_op *op, tutti_error *error)
{
    return tti_engine_start(e, op) ? tti_engine_finish(e, op, error) : tti_engine_run(e, op, error);
}

static tutti_status call(struct tti_engine *e, tutti_op *kept, const tutti_op *other, uint64_t draw, tutti_op **used,
                         tutti_error *error)
{
    static _Thread_local tutti_op fresh;
    *used = kept;
    if (other || draw % 4 == 0) {
        fresh = other ? *other : *kept;
        memset(fresh.prepared, 0, sizeof(fresh.prepared));
        *used = &fresh;
    }
    return draw % 4 == 1 ? in_two_steps(e, *used, error) : tti_engine_run(e, *used, error);
}

static int check_result(struct tti_engine *e, const uint8_t *out, size_t bytes, int round)
{
    int wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned sum = 0;
        for (int r = 0; r < e->size; r++) {
            sum += value_of(r, round, i);
        }
        wrong += out[i] != sum;
    }
    return wrong + (out[bytes] != 0xee);
}

static int again(struct cluster *c, int rank)
{
    struct tti_engine *e = c->engines[rank];
    static _Thread_local tutti_op kept[MOST + 1];
    static _Thread_local uint8_t in[MOST + 1];
    static _Thread_local uint8_t out[MOST + 2];
    int failures = 0;
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        kept[bytes] = op_of(TUTTI_OP_ALL_REDUCE, in, out, bytes, 0);
        kept[bytes].dtype = TUTTI_U8;
    }
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t chance = number((uint64_t)round, 1);
        const size_t bytes = (chance >> 8) % (MOST + 1);
        const bool differs = chance % 8 == 0 && bytes > 0;
        tutti_op other = kept[bytes];
        other.redop = TUTTI_MAX;
        for (size_t i = 0; i < bytes; i++) {
            in[i] = value_of(rank, round, i);
        }
        memset(out, 0xee, sizeof(out));
        const bool mine = differs && (int)((chance >> 40) % (uint64_t)e->size) == rank;
        const uint64_t before = e->lanes[0].bytes_copied;
        tutti_error error;
        tutti_op *used;
        const tutti_status status =
            call(e, &kept[bytes], mine ? &other : NULL, number(chance, (uint64_t)rank), &used, &error);
        failures += status != (differs ? TUTTI_MISMATCH : TUTTI_OK);
        failures += used->sequence != round + 1;
        failures += status == TUTTI_OK ? check_result(e, out, bytes, round) : 0;
        if (bytes <= TTI_PAYLOAD) {
            failures += strcmp(tti_engine_algorithm(e, 0), "inline") != 0;
            failures += e->lanes[0].bytes_copied - before != (status == TUTTI_OK ? ((uint64_t)e->size + 1) * bytes : 0);
        }
    }
    return failures;
}

static void test_again(void **state)
{
    (void)state;
    const int sizes[] = {2, 3, 5};
    const struct waiting waits[] = {{.spin_ns = 20000, .yield_ns = 50000, .sleep_ns = 0}, {0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        for (int w = 0; w < 2; w++) { /* ranks that spin, and ranks that sleep at once */
            struct cluster c;
            assert_int_equal(cluster_open(&c, sizes[i], 1, 8192, waits[w]), 0);
            assert_int_equal(cluster_run(&c, again), 0);
            cluster_close(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
