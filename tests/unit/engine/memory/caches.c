/* SPDX-License-Identifier: BSD-3-Clause */
/* Which limit decides whether the results of a call go past the caches, and of how many bytes; which lines of the
 * output are looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/memory/caches.h"
#include "engine/memory/stage.h"

#define RANKS 4

static char tensors[2];

/* Every kind of writing has a limit of its own, a multiple of all numbers of tensors. */
static uint64_t limit_of(enum tti_stream_kind kind)
{
    return ((uint64_t)kind + 1) << 20;
}

static bool passes(tutti_operation kind, bool in_place, bool from_stage, uint64_t bytes)
{
    static struct tti_engine engine = {.size = RANKS};
    struct tti_lane lane = {.engine = &engine, .bytes = bytes};
    const tutti_op op = {.kind = kind, .src = &tensors[0], .dst = &tensors[in_place ? 0 : 1]};
    for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
        engine.tuning.streams[k] = limit_of(k);
        engine.tuning.streams_if_cold[k] = TTI_TUNING_NEVER;
    }
    tti_choose_stores(&lane, &op, from_stage);
    return lane.streams;
}

static void each_kind_of_writing_has_its_limit(void **state)
{
    (void)state;
    static const struct {
        tutti_operation operation;
        enum tti_stream_kind staged, direct;
        uint64_t tensors; /* of the call's size that count */
    } rows[] = {
        {TUTTI_OP_ALL_REDUCE, TTI_STREAM_FOLDED, TTI_STREAM_FOLDED, RANKS},
        {TUTTI_OP_REDUCE, TTI_STREAM_FOLDED, TTI_STREAM_FOLDED, RANKS},
        {TUTTI_OP_ALL_GATHER, TTI_STREAM_ALL_GATHER, TTI_STREAM_DIRECT, RANKS},
        {TUTTI_OP_ALL_TO_ALL, TTI_STREAM_ALL_TO_ALL, TTI_STREAM_EXCHANGED, RANKS},
        {TUTTI_OP_BROADCAST, TTI_STREAM_ROOTED, TTI_STREAM_DIRECT, RANKS},
        {TUTTI_OP_GATHER, TTI_STREAM_ROOTED, TTI_STREAM_DIRECT, 2},
        {TUTTI_OP_SCATTER, TTI_STREAM_ROOTED, TTI_STREAM_DIRECT, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t staged = limit_of(rows[i].staged) / rows[i].tensors;
        const uint64_t direct = limit_of(rows[i].direct) / rows[i].tensors;
        assert_true(passes(rows[i].operation, false, true, staged));
        assert_false(passes(rows[i].operation, false, true, staged - 1));
        assert_true(passes(rows[i].operation, false, false, direct));
        assert_false(passes(rows[i].operation, false, false, direct - 1));
    }
}

static void a_fold_in_place_stays(void **state)
{
    (void)state;
    assert_false(passes(TUTTI_OP_ALL_REDUCE, true, true, UINT64_C(1) << 30));
    assert_false(passes(TUTTI_OP_REDUCE, true, true, UINT64_C(1) << 30));
    assert_true(passes(TUTTI_OP_ALL_GATHER, true, true, UINT64_C(1) << 30));
}

/* Only what peers send is looked at: all other pages would be a fault. */
struct output {
    unsigned char *pages;
    size_t page;
    int64_t counts[RANKS], displacements[RANKS];
};

/* Every rank's part is a page, and a page lies between any two. */
static struct output make_output(int own)
{
    struct output o = {.page = (size_t)sysconf(_SC_PAGESIZE)};
    o.pages = mmap(NULL, 2 * RANKS * o.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(o.pages, MAP_FAILED);
    for (int r = 0; r < RANKS; r++) {
        o.counts[r] = (int64_t)o.page;
        o.displacements[r] = (int64_t)(2 * (size_t)r * o.page);
        assert_int_equal(mprotect(o.pages + o.displacements[r], o.page, r == own ? PROT_NONE : PROT_READ | PROT_WRITE),
                         0);
    }
    return o;
}

/* Whether a byte of the output was looked for. */
static bool samples(int rank, const tutti_op *op, uint64_t bytes)
{
    struct tti_engine engine = {.rank = rank, .size = RANKS, .ticks_per_ns = 1};
    struct tti_lane lane = {.engine = &engine, .bytes = bytes};
    for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
        engine.tuning.streams[k] = TTI_TUNING_NEVER;
        engine.tuning.streams_if_cold[k] = 4096;
    }
    for (int i = 0; i < 1000; i++) {
        tti_choose_stores(&lane, op, true);
    }
    return lane.residency.random != 0;
}

static void what_peers_send_is_sampled(void **state)
{
    (void)state;
    static const tutti_operation kinds[] = {TUTTI_OP_ALL_GATHER, TUTTI_OP_ALL_TO_ALL, TUTTI_OP_GATHER};
    for (int rank = 0; rank < RANKS; rank++) {
        struct output o = make_output(rank);
        memset(o.pages + o.displacements[(rank + 1) % RANKS], 7, o.page);
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            const tutti_parts parts = {.outer = 1, .unit = 1, .counts = o.counts, .displacements = o.displacements};
            const tutti_op op = {.kind = kinds[i], .root = rank, .dst = o.pages, .recv_parts = parts};
            assert_true(samples(rank, &op, 4096));
        }
        for (size_t i = 0; i < o.page; i++) {
            assert_int_equal(o.pages[o.displacements[(rank + 1) % RANKS] + (int64_t)i], 7);
        }
        assert_int_equal(munmap(o.pages, 2 * RANKS * o.page), 0);
    }
}

static void nothing_else_is_sampled(void **state)
{
    (void)state;
    const tutti_parts empty = {.outer = 1, .unit = 1, .each = 0};
    const tutti_parts pages = {.outer = 1, .unit = 1, .each = 4096};
    assert_false(samples(0, &(tutti_op){.kind = TUTTI_OP_BROADCAST, .count = 4096, .dtype = TUTTI_U8}, 4096));
    assert_false(samples(0, &(tutti_op){.kind = TUTTI_OP_SCATTER, .count = 1024, .dtype = TUTTI_U8}, 4096));
    assert_false(samples(1, &(tutti_op){.kind = TUTTI_OP_GATHER, .recv_parts = pages}, 4096));
    (void)samples(1, &(tutti_op){.kind = TUTTI_OP_ALL_GATHER, .recv_parts = empty}, 4096);
    assert_false(samples(1, &(tutti_op){.kind = TUTTI_OP_ALL_GATHER, .recv_parts = pages}, 1023)); /* too little */
}

/* By the place of its first span, also in a group without that ring. */
static void a_far_stage_is_known_by_its_place(void **state)
{
    (void)state;
    struct tti_engine engine = {.size = 2, .layout = {.stage = 4096, .stage_far = 8192, .stage_small = 1024}};
    uint64_t starts[2] = {0};
    const struct tti_lane lane = {.engine = &engine, .starts = starts};
    static const struct {
        uint64_t place;
        bool far;
    } rows[] = {{0, false}, {4095, false}, {4096, true}, {12287, true}, {12288, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        starts[1] = rows[i].place;
        assert_int_equal(tti_stage_peer_is_far(&lane, 1), rows[i].far);
    }
    engine.layout.stage_far = 0;
    starts[1] = 4096;
    assert_false(tti_stage_peer_is_far(&lane, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_writing_has_its_limit), cmocka_unit_test(a_fold_in_place_stays),
        cmocka_unit_test(what_peers_send_is_sampled),         cmocka_unit_test(nothing_else_is_sampled),
        cmocka_unit_test(a_far_stage_is_known_by_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
