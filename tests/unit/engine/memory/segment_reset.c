/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/*
 * A segment that a group has used is as new: all zeros before its stages, and in the records of messages. Small calls,
 * so many that the lines come round; packets; large calls; messages; an agreement; a split; a failure; leaving.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/failure/agreement.h"
#include "engine/memory/reset.h"
#include "unit/engine/p2p/p2p_support.h"

#define RANKS 3
#define LANES 2
#define LARGE 20000 /* elements */

static int run(struct cluster *c, int rank, tutti_operation kind, size_t count, int lane)
{
    static int32_t data[RANKS][2][LARGE];
    memset(data[rank], 0x11, sizeof(data[rank]));
    tutti_op op = op_of(kind, data[rank][0], data[rank][1], count, 1);
    tutti_error error;
    op.lane = lane;
    return tti_engine_run(c->engines[rank], &op, &error) != TUTTI_OK;
}

static int exchange_messages(struct cluster *c, int rank)
{
    static int32_t in[RANKS][LARGE];
    static const int32_t out[LARGE] = {7};
    int failures = 0;
    for (int64_t count = 1; count <= LARGE; count = count * 10 < LARGE || count == LARGE ? count * 10 : LARGE) {
        tutti_op send = send_op(out, &count, (rank + 1) % RANKS, 0);
        tutti_op recv = recv_op(in[rank], (size_t)count, (rank + RANKS - 1) % RANKS, 0);
        tutti_op *both[] = {&send, &recv};
        failures += run_messages(c, rank, both, 2);
    }
    return failures;
}

static int use(struct cluster *c, int rank)
{
    tutti_error error;
    int failures = 0;
    for (int i = 0; i < (int)TTI_RING + 5; i++) {
        failures += run(c, rank, TUTTI_OP_ALL_REDUCE, 1, 0);
    }
    failures += run(c, rank, TUTTI_OP_BARRIER, 0, 1);
    failures += run(c, rank, TUTTI_OP_ALL_REDUCE, LARGE, 1);
    failures += run(c, rank, TUTTI_OP_ALL_REDUCE, 30, 1);
    failures += run(c, rank, TUTTI_OP_ALL_REDUCE, 40, 1); /* in packets, and the lane's last call */
    failures += exchange_messages(c, rank);
    for (int32_t series = 0; series < TTI_AGREEMENT_SERIES; series++) {
        uint64_t absent[TTI_MAX_RANKS / 64] = {0};
        tutti_agreement agreement = {.size = sizeof(agreement),
                                     .series = series,
                                     .flags = 3,
                                     .token = {5, 6},
                                     .timeout_ms = TUTTI_FOREVER,
                                     .absent = absent};
        for (int i = 0; i < 2; i++) { /* votes and proposals take turns */
            failures += tti_engine_agree(c->engines[rank], &agreement, &error) != TUTTI_OK;
        }
    }
    return failures;
}

static size_t others_than_zero(const unsigned char *memory, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        count += memory[i] != 0;
    }
    return count;
}

/* Otherwise the test below would show nothing. */
static void expect_used(const struct cluster *c, int rank)
{
    const unsigned char *segment = c->segments[rank];
    assert_true(others_than_zero(segment + c->layout.fault, sizeof(struct tti_fault)) > 0);
    for (int lane = 0; lane < LANES; lane++) {
        const struct tti_lane_control *control = (const struct tti_lane_control *)(segment + c->layout.lane) + lane;
        assert_true(others_than_zero(control->ring, sizeof(control->ring)) > 0);
    }
    const struct tti_lane_control *large = (const struct tti_lane_control *)(segment + c->layout.lane) + 1;
    assert_true(others_than_zero(large->progress, sizeof(large->progress)) > 0);
    assert_true(others_than_zero((const unsigned char *)large->packets, sizeof(large->packets)) > 0);
    assert_true(others_than_zero(segment + c->layout.pairs, RANKS * TTI_LINE) > 0);
}

static void a_used_segment_is_as_new(void **state)
{
    struct cluster c;
    (void)state;
    assert_int_equal(cluster_open(&c, RANKS, LANES, 8192, (struct waiting){500, 20000, 0}), 0);
    assert_int_equal(cluster_run(&c, use), 0);
    for (int r = 0; r < RANKS; r++) {
        struct tti_split *splits = (struct tti_split *)(c.segments[r] + TTI_SPLIT_OFFSET);
        for (size_t i = 0; i < TTI_SPLITS; i++) {
            atomic_store(&splits[i].number, i + 1);
            atomic_store(&splits[i].entry, i + 1);
        }
        tti_fault_revoke(c.engines[r], TUTTI_OP_REVOKE);
        tti_engine_leave(c.engines[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        expect_used(&c, r);
        tti_segment_reset(c.segments[r], &c.layout, r);
        assert_int_equal(others_than_zero(c.segments[r], c.layout.stages), 0);
        for (size_t peer = 0; peer < RANKS; peer++) {
            const unsigned char *slots = c.segments[r] + c.layout.rings + peer * c.layout.ring_stride;
            assert_int_equal(others_than_zero(slots, TTI_SLOTS * sizeof(struct tti_slot)), 0);
        }
    }
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_used_segment_is_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
