/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=300 trees=release,debug */
/*
 * Bytes that a rank loads and stores for the data of a call, as the engine counts them (lane->bytes_copied). The test
 * compares them with the least that each algorithm allows. n bytes of the vector, or of all parts together; m bytes of
 * this rank's slice or part; P ranks. A copy of b bytes counts 2b; a fold of P sources into q places counts (P + q)b.
 *
 *                    copy-in, copy-out              zero-copy
 *   all_reduce       5n - 2m; one-shot (P + 3)n     2Pm = 2n
 *   reduce           leaf 2n, root (P + 1)n         (P + 1)m
 *     by slices      leaf 3n - m, root 5n - 3m; m more where the result is written for far readers
 *   broadcast        2n                             root 0, leaf 2n; two ranks with a CPU each n
 *   all_gather       2n + m + step, in place 2n     2n, in place 2(n - m)
 *   gather           leaf 2m, root 2n               leaf 2m, root 2m; in place root 0, or with a CPU for each rank of
 *                                                   each part 2m/P the root and the rest its leaf; of short parts
 *                                                   leaf 0, root 2n; in place 2(n - m)
 *   scatter          root 2n, leaf 2m               root 2m, leaf 2m; in place 0
 *   reduce_scatter   3n - m                         n + m
 *   all_to_all       4n - 2m                        2n
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unit/engine/engine_calls.h"

#define WINDOW 16384u

/* Bytes of this rank's slices of an all_reduce together: whole cache lines, window by window. */
static uint64_t slices(const struct tti_engine *e, uint64_t n, uint64_t window)
{
    uint64_t total = 0;
    for (uint64_t at = 0; at < n; at += window) {
        uint64_t w = n - at < window ? n - at : window;
        uint64_t each = ((w / 4 + (uint64_t)e->size - 1) / (uint64_t)e->size * 4 + 63) / 64 * 64;
        uint64_t from = each * (uint64_t)e->rank < w ? each * (uint64_t)e->rank : w;
        total += each < w - from ? each : w - from;
    }
    return total;
}

/* The same for the slices of zero copy. */
static uint64_t direct_slice(const struct tti_engine *e, uint64_t n)
{
    uint64_t each = (n / (uint64_t)e->size / 64 + 1) * 64;
    uint64_t from = each * (uint64_t)e->rank < n ? each * (uint64_t)e->rank : n;
    return each < n - from ? each : n - from;
}

/* Whether the readers of stages seem far away: then stages are written past the caches, and the bytes are the same but
 * for the reduce by slices. */
static bool seem_far;

static double ranks_per_cpu; /* 0: as the machine has it */

static uint64_t staged_bound(const struct tti_engine *e, const struct reference_call *c, uint64_t n, uint64_t m)
{
    uint64_t ranks = (uint64_t)e->size;
    bool root = e->rank == c->root;
    uint64_t own = c->in_place ? 0 : 2 * m; /* the own part stays in place */
    switch (c->kind) {
    case TUTTI_OP_ALL_REDUCE:
        if (n <= e->tuning.one_shot) {
            return (ranks + 3) * n;
        }
        m = slices(e, n, n < e->tuning.window ? n : e->tuning.window);
        return 2 * (n - m) + (ranks + 2) * m + 2 * (n - m); /* stage, fold into the stage and the output, copy out */
    case TUTTI_OP_REDUCE:
        if (n < e->tuning.reduce_sliced) {
            return root ? (ranks + 1) * n : 2 * n;
        }
        m = slices(e, n, n < e->tuning.window ? n : e->tuning.window);
        return 2 * (n - m) + (ranks + (seem_far ? 2 : 1)) * m + (root ? 2 * (n - m) : 0);
    case TUTTI_OP_BROADCAST:
        return 2 * n;
    case TUTTI_OP_ALL_GATHER:
        /* one load and two stores of the own part; its first step is loaded again, since all ranks must agree before */
        return c->in_place ? 2 * n : 2 * n + m + (m < e->tuning.window ? m : e->tuning.window);
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
        return root ? 2 * (n - m) + own : 2 * m;
    case TUTTI_OP_REDUCE_SCATTER:
        return 2 * (n - m) + (ranks + 1) * m;
    default:
        return 4 * n - 2 * m;
    }
}

/* Of `bytes` that writer and reader both copy, what the reader pulls. */
static uint64_t pulled(const struct tti_engine *e, uint64_t bytes)
{
    return bytes / (uint64_t)e->size / 4096 * 4096;
}

static uint64_t direct_gather(const struct tti_engine *e, const struct reference_call *c, uint64_t n, uint64_t m)
{
    const bool root = e->rank == c->root;
    const uint64_t own = c->in_place ? 0 : 2 * m;
    if (m < 24576) {
        return root ? 2 * (n - m) + own : 0;
    }
    const uint64_t share = c->in_place && e->ranks_per_cpu <= 1 ? pulled(e, m) : 0;
    return root ? 2 * ((uint64_t)e->size - 1) * share + own : 2 * (m - share);
}

static uint64_t direct_bound(const struct tti_engine *e, const struct reference_call *c, uint64_t n, uint64_t m)
{
    uint64_t ranks = (uint64_t)e->size;
    bool root = e->rank == c->root;
    uint64_t own = c->in_place ? 0 : 2 * m;
    uint64_t half = e->size == 2 && e->ranks_per_cpu <= 1 ? pulled(e, n) : n;
    switch (c->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return 2 * ranks * direct_slice(e, n);
    case TUTTI_OP_REDUCE:
        return (ranks + 1) * direct_slice(e, n);
    case TUTTI_OP_BROADCAST:
        return 2 * (root ? n - half : half);
    case TUTTI_OP_ALL_GATHER:
        return 2 * (n - m) + own;
    case TUTTI_OP_GATHER:
        return direct_gather(e, c, n, m);
    case TUTTI_OP_SCATTER:
        return root ? own : 2 * m;
    case TUTTI_OP_REDUCE_SCATTER:
        return (ranks + 1) * m;
    default:
        return 2 * n;
    }
}

static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,        TUTTI_OP_BROADCAST,
                                        TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,        TUTTI_OP_SCATTER,
                                        TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER};

static int count_call(struct tti_engine *e, tutti_operation kind, size_t count, bool in_place)
{
    const struct reference_call c = {.kind = kind,
                                     .dtype = TUTTI_F32,
                                     .size = e->size,
                                     .root = (int)count % e->size,
                                     .rows = 1,
                                     .count = count,
                                     .in_place = in_place && kind != TUTTI_OP_ALL_TO_ALL};
    uint64_t moved = 0;
    e->ranks_per_cpu = ranks_per_cpu > 0 ? ranks_per_cpu : e->ranks_per_cpu;
    e->lanes[0].publish_ticks = seem_far ? 1e6 * e->ticks_per_ns : 0;
    int failures = run_call(e, 0, &c, &moved);
    failures += seem_far && !e->direct && !tti_stage_is_far(&e->lanes[0]);
    bool joined = sends_joined(kind) || receives_joined(kind);
    uint64_t m = count * sizeof(float);
    uint64_t n = joined ? m * (uint64_t)e->size : m;
    uint64_t bound = e->direct ? direct_bound(e, &c, n, m) : staged_bound(e, &c, n, m);
    if (moved != bound) {
        fprintf(stderr, "rank %d of %d, root %d: %s%s of %llu bytes, %s, moved %llu bytes, %lld more than it must\n",
                e->rank, e->size, c.root, tutti_operation_name(kind), c.in_place ? " in place" : "",
                (unsigned long long)n, e->direct ? "zero-copy" : "staged", (unsigned long long)moved,
                (long long)(moved - bound));
        failures++;
    }
    return failures;
}

static int count_calls(struct tti_engine *e, tutti_operation kind)
{
    static const size_t counts[] = {1000, 2048, 4096, 10007, 40000, 150001};
    int failures = 0;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        failures += count_call(e, kind, counts[i], false);
        failures += count_call(e, kind, counts[i], true);
    }
    return failures;
}

static int all_kinds(struct cluster *c, int rank)
{
    int failures = 0;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        failures += count_calls(c->engines[rank], kinds[k]);
    }
    return failures;
}

static int reduces(struct cluster *c, int rank)
{
    return count_calls(c->engines[rank], TUTTI_OP_REDUCE);
}

/* `reduce_sliced`: reduces only, by slices from so many bytes on; -1: all operations, by the tuning. */
static void least(bool direct, int64_t reduce_sliced)
{
    static const int sizes[] = {2, 3, 5};
    struct tti_tuning_overrides wishes = no_overrides;
    wishes.window = WINDOW;
    wishes.reduce_sliced = reduce_sliced;
    int failures = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct cluster c;
        struct tti_tuning tuning = built_in_tuning(sizes[i], &wishes);
        tuning.stage_far = seem_far ? 2 * tuning.stage : 0;
        tuning.stage_small = 0;
        assert_int_equal(cluster_open_tuned(&c, sizes[i], 1, tuning, (struct waiting){1000, 20000, 0}), 0);
        for (int r = 0; r < sizes[i]; r++) {
            c.engines[r]->direct = direct;
        }
        failures += cluster_run(&c, reduce_sliced < 0 ? all_kinds : reduces);
        cluster_close(&c);
    }
    assert_int_equal(failures, 0);
}

static void copying_in_and_out(void **state)
{
    (void)state;
    least(false, -1);
}

static void copying_slices_to_the_root(void **state)
{
    (void)state;
    least(false, 16384);
    seem_far = true;
    ranks_per_cpu = 1; /* so that calls of all sizes take the ring for far readers */
    least(false, 0);
    seem_far = false;
    ranks_per_cpu = 0;
}

static void copying_to_far_readers(void **state)
{
    (void)state;
    seem_far = true;
    ranks_per_cpu = 1;
    least(false, -1);
    seem_far = false;
    ranks_per_cpu = 0;
}

static void zero_copy(void **state)
{
    (void)state;
    ranks_per_cpu = 1;
    least(true, -1);
    ranks_per_cpu = 2;
    least(true, -1);
    ranks_per_cpu = 0;
}

/* Data in packets: every rank writes its lines, keeps a copy for the fold, reads its peers' lines and folds. */
static int packets(struct cluster *c, int rank)
{
    struct tti_engine *e = c->engines[rank];
    uint64_t ranks = (uint64_t)e->size;
    int failures = 0;
    for (size_t count = TTI_PAYLOAD / 4 + 1; count <= e->tuning.packets / 4; count++) {
        const struct reference_call call = {
            .kind = TUTTI_OP_ALL_REDUCE, .dtype = TUTTI_F32, .size = e->size, .rows = 1, .count = count};
        uint64_t moved = 0;
        uint64_t n = count * sizeof(float);
        uint64_t lines = (n - TTI_PAYLOAD + TTI_PACKET_DATA - 1) / TTI_PACKET_DATA;
        failures += run_call(e, 0, &call, &moved);
        failures += moved != 4 * n + (ranks - 1) * 2 * (TTI_PAYLOAD + lines * TTI_PACKET_DATA) + (ranks + 1) * n;
    }
    return failures;
}

static void packets_are_taken_once(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 3, 1, WINDOW, (struct waiting){1000, 20000, 0}), 0);
    assert_int_equal(cluster_run(&c, packets), 0);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copying_in_and_out),     cmocka_unit_test(copying_slices_to_the_root),
        cmocka_unit_test(copying_to_far_readers), cmocka_unit_test(zero_copy),
        cmocka_unit_test(packets_are_taken_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
