/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=300 */
/*
 * Every collective at the boundaries of every class: one element less, exactly, and one more than what fits the arrival
 * line, packets, the one-shot threshold, a window, a whole stage. In place and not, with every root, with parts in rows
 * and parts of different length. The test compares the results with a reference that knows no classes. It compares the
 * algorithm that the engine reports with the table of docs/performance.md, which is written here once more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "repetitions.h"
#include "unit/engine/engine_calls.h"

#define WINDOW      8192u /* gives a stage of 64 KiB */
#define LEAST_CHUNK 8192u /* of a stream */
#define MOST_CHUNK  65536u
#define SMALL_STEP  65536u /* of an all_gather in the small ring */

static const tutti_operation kinds[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE,         TUTTI_OP_BROADCAST,
                                        TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,         TUTTI_OP_SCATTER,
                                        TUTTI_OP_ALL_TO_ALL, TUTTI_OP_REDUCE_SCATTER, TUTTI_OP_BARRIER};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_I8, TUTTI_BF16};

/* Bytes of each rank's slot in a step in which all ranks have a slot: whole cache lines. */
static size_t slot_bytes(const struct tti_engine *e, size_t step)
{
    return step / (size_t)e->size / 64 * 64;
}

/* Elements of all parts together in one row, and of the largest one. */
struct lengths {
    size_t all;
    size_t most;
};

static struct lengths lengths_of(const struct reference_call *c)
{
    const struct reference_joined parts =
        c->kind == TUTTI_OP_ALL_GATHER ? reference_received(c, 0) : reference_sent(c, 0);
    struct lengths l = {0};
    for (int r = 0; r < c->size; r++) {
        const size_t n = (size_t)parts.counts[r];
        l.all += n;
        l.most = n > l.most ? n : l.most;
    }
    return l;
}

/* Bytes of a span that holds all parts, each in whole cache lines. */
static size_t whole_parts(const struct reference_call *c)
{
    const struct reference_joined parts = reference_sent(c, 0);
    size_t bytes = 0;
    for (int r = 0; r < c->size; r++) {
        bytes += ((size_t)parts.counts[r] * c->rows * tutti_dtype_size(c->dtype) + 63) / 64 * 64;
    }
    return bytes;
}

/* A large call: `bytes` of data, of which one step takes up to `step`. */
static const char *by_steps(size_t bytes, size_t step)
{
    return bytes <= step ? "staged" : "pipelined";
}

/* Parts of up to two small steps, where the small ring serves all sizes. */
static bool takes_small_steps(const struct tti_engine *e, size_t part)
{
    return tti_stage_small_holds(&e->lanes[0], SMALL_STEP) && e->tuning.small_from_root == TTI_TUNING_NEVER &&
           part <= 2 * SMALL_STEP;
}

static const char *large(const struct tti_engine *e, const struct reference_call *c, size_t part)
{
    const size_t window = (size_t)e->tuning.window;
    switch (c->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return part <= e->tuning.one_shot ? "one_shot" : part <= window ? "two_shot" : "pipelined";
    case TUTTI_OP_REDUCE:
        return part < e->tuning.reduce_sliced ? by_steps(part, window < LEAST_CHUNK ? window : LEAST_CHUNK)
               : part <= window               ? "two_shot"
                                              : "pipelined";
    case TUTTI_OP_ALL_GATHER:
        return by_steps(part, takes_small_steps(e, part) ? SMALL_STEP : window);
    case TUTTI_OP_REDUCE_SCATTER:
        return by_steps(whole_parts(c), window);
    case TUTTI_OP_ALL_TO_ALL:
        return by_steps(part, slot_bytes(e, window));
    case TUTTI_OP_SCATTER:
        return by_steps(part, slot_bytes(e, window) < LEAST_CHUNK ? slot_bytes(e, window) : LEAST_CHUNK);
    default:
        return by_steps(part, window < LEAST_CHUNK ? window : LEAST_CHUNK);
    }
}

static bool goes_where_it_lies(const struct tti_engine *e, const struct reference_call *c, const struct lengths *parts)
{
    const bool hidden =
        c->kind == TUTTI_OP_SCATTER && c->rows > 1; /* leaves could not compute the places of their parts */
    const size_t parts_of_all = sends_joined(c->kind) || receives_joined(c->kind) ? (size_t)c->size : 1;
    const size_t bytes = parts->most * parts_of_all * c->rows * tutti_dtype_size(c->dtype);
    return e->direct && bytes >= e->tuning.zero_copy && !hidden;
}

/* The algorithm that the call has to use. */
static const char *expected(const struct tti_engine *e, const struct reference_call *c)
{
    const size_t row = c->rows * tutti_dtype_size(c->dtype);
    const struct lengths l = lengths_of(c);
    size_t arrival = c->kind == TUTTI_OP_BARRIER ? 0 : l.most * row;
    if (c->kind == TUTTI_OP_REDUCE_SCATTER) {
        arrival = l.all * row;
    } else if (c->kind == TUTTI_OP_SCATTER || c->kind == TUTTI_OP_ALL_TO_ALL) { /* all parts but the own one */
        arrival = l.most * (size_t)(c->size - 1) * row;
    }
    if (c->uneven && c->kind == TUTTI_OP_ALL_TO_ALL) { /* the lengths and the beginnings, then what is left */
        const size_t lengths = (16 * (size_t)c->size + 63) / 64 * 64;
        const size_t span = slot_bytes(e, e->tuning.window) * (size_t)c->size;
        const size_t beginning = (span - lengths) / (size_t)c->size / 64 * 64;
        bool fits = true;
        for (int from = 0; from < c->size; from++) {
            for (int to = 0; to < c->size; to++) {
                fits = fits && (from == to || (size_t)reference_uneven(c, from, to) * row <= beginning);
            }
        }
        return fits ? "staged" : "pipelined";
    }
    if (arrival <= TTI_PAYLOAD) {
        return "inline";
    }
    const bool root_sends = c->kind == TUTTI_OP_BROADCAST || c->kind == TUTTI_OP_SCATTER;
    if (arrival <= (root_sends ? e->tuning.packets_root : e->tuning.packets)) {
        return "packets";
    }
    return goes_where_it_lies(e, c, &l) ? "zero_copy" : large(e, c, l.most * row);
}

static int check_algorithm(struct tti_engine *e, const struct reference_call *c)
{
    const char *want = expected(e, c);
    const char *got = tti_engine_algorithm(e, 0);
    if (got && strcmp(got, want) == 0) {
        return 0;
    }
    fprintf(stderr, "rank %d of %d, root %d: %s of %zu rows of %zu %s%s ran %s, not %s\n", e->rank, e->size, c->root,
            tutti_operation_name(c->kind), c->rows, c->count, tutti_dtype_name(c->dtype), c->uneven ? ", uneven" : "",
            got ? got : "an algorithm without a name", want);
    return 1;
}

#define BOUNDARIES 19

/* Bytes of all parts, of which so many are not the own one. */
static size_t all_parts_of(const struct tti_engine *e, size_t sent)
{
    return e->size > 1 ? sent / (size_t)(e->size - 1) * (size_t)e->size : sent;
}

/* Bytes of a whole tensor at which a class ends, by any of the measures that decide classes. */
static void boundaries(const struct tti_engine *e, size_t bytes[BOUNDARIES])
{
    const size_t all[BOUNDARIES] = {0,
                                    1,
                                    36,
                                    TTI_PAYLOAD,
                                    (size_t)e->tuning.packets,
                                    (size_t)e->tuning.packets_root,
                                    TTI_INLINE_MOST,
                                    all_parts_of(e, TTI_PAYLOAD),
                                    all_parts_of(e, (size_t)e->tuning.packets),
                                    all_parts_of(e, (size_t)e->tuning.packets_root),
                                    (size_t)e->tuning.one_shot,
                                    (size_t)e->tuning.zero_copy,
                                    (size_t)(e->tuning.reduce_sliced % TTI_TUNING_NEVER),
                                    LEAST_CHUNK,
                                    (size_t)e->tuning.window / (size_t)e->size,
                                    slot_bytes(e, e->tuning.window) * (size_t)e->size,
                                    (size_t)e->tuning.window,
                                    (size_t)e->layout.stage,
                                    (size_t)e->layout.stage * 2 + e->tuning.window / 2};
    memcpy(bytes, all, sizeof(all));
}

static bool has_variable_form(tutti_operation kind)
{
    return kind == TUTTI_OP_ALL_GATHER || kind == TUTTI_OP_REDUCE_SCATTER || kind == TUTTI_OP_ALL_TO_ALL;
}

/* Whether this run takes one side of each boundary, in turn. Threads race alike on all of them, and take minutes
 * here. */
static bool takes_one_side(void)
{
#if defined(__SANITIZE_THREAD__)
    return !takes_all();
#else
    return false;
#endif
}

/* One tensor size, one operation: dtypes and forms rotate, so that all pairs occur without all combinations. */
static int around(struct tti_engine *e, tutti_operation kind, size_t bytes, int round)
{
    int failures = 0;
    tutti_dtype dtype = dtypes[round % 3];
    size_t element = tutti_dtype_size(dtype);
    for (size_t more = 0; more < 3; more++) { /* one element less, exactly, one more */
        size_t count = bytes / element + more;
        if (count == 0 || (takes_one_side() && more != (size_t)round % 3)) {
            continue;
        }
        struct reference_call c = {.kind = kind,
                                   .dtype = dtype,
                                   .size = e->size,
                                   .root = (round + (int)more) % e->size,
                                   .rows = 1,
                                   .count = count - 1,
                                   .seed = (uint32_t)round * 4 + (uint32_t)more};
        for (int form = 0; form < 4; form++) {
            c.in_place = form == 1;
            c.rows = form == 2 ? 3 : 1;
            c.uneven = form == 3;
            if ((form == 3 && !has_variable_form(kind)) ||
                (form == 2 && !sends_joined(kind) && !receives_joined(kind))) {
                continue;
            }
            failures += run_call(e, 0, &c, NULL);
            failures += check_algorithm(e, &c);
        }
    }
    return failures;
}

static int all_boundaries(struct cluster *c, int rank)
{
    struct tti_engine *e = c->engines[rank];
    size_t bytes[BOUNDARIES];
    boundaries(e, bytes);
    int failures = 0;
    int round = 0;
    for (size_t k = 0; k < KINDS; k++) {
        bool joined = sends_joined(kinds[k]) || receives_joined(kinds[k]);
        for (size_t i = 0; i < BOUNDARIES; i++) {
            if (!joined || bytes[i] <= e->tuning.window) {
                failures += around(e, kinds[k], bytes[i], round++);
            }
            if (joined) { /* the limit may be one of all parts together */
                failures += around(e, kinds[k], bytes[i] / (size_t)e->size, round++);
            }
        }
    }
    return failures;
}

static void run_all(int packets, int one_shot, int reduce_sliced, bool direct)
{
    static const int sizes[] = {3, 2, 5};
    for (int i = 0; i < repetitions(3); i++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, sizes[i], 1, WINDOW, (struct waiting){1000, 20000, 0}), 0);
        for (int r = 0; r < sizes[i]; r++) {
            struct tti_engine *e = c.engines[r];
            e->direct = direct;
            e->tuning.one_shot = one_shot >= 0 ? (uint64_t)one_shot : e->tuning.one_shot;
            e->tuning.reduce_sliced = reduce_sliced >= 0 ? (uint64_t)reduce_sliced : e->tuning.reduce_sliced;
            if (packets >= 0) {
                e->tuning.packets = (uint64_t)packets;
                e->tuning.packets_root = (uint64_t)packets;
                free(e->unpacked);
                e->unpacked = malloc((size_t)e->size * TTI_INLINE_MOST);
                e->lanes[0].unpacked = e->unpacked;
            }
        }
        assert_int_equal(cluster_run(&c, all_boundaries), 0);
        cluster_close(&c);
    }
}

static void staged(void **state)
{
    (void)state;
    run_all(-1, -1, -1, false);
}

static void staged_with_all_packets(void **state)
{
    (void)state;
    run_all(TTI_INLINE_MOST, 4096, 6000, false);
}

static void staged_without_packets_and_one_shot(void **state)
{
    (void)state;
    run_all(0, 0, 0, false);
}

static void zero_copy(void **state)
{
    (void)state;
    run_all(-1, -1, 0, true);
}

static tutti_operation rooted; /* what all ranks run next */

/* Calls of more spans than the small ring holds wait for their readers. */
static int in_the_small_ring(struct cluster *c, int rank)
{
    struct tti_engine *e = c->engines[rank];
    const size_t ring = e->layout.stage_small;
    /* the spans of a scatter hold a part for each rank, and the ring has to hold five of them */
    const size_t most = rooted == TUTTI_OP_SCATTER ? ring / 8 : 3 * ring + 8;
    const size_t bytes[] = {LEAST_CHUNK, most / 5, most};
    int failures = 0;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        failures += around(e, rooted, bytes[i], (int)i);
    }
    return failures + (e->lanes[0].rings[TTI_RING_FIRST].head != 0);
}

/* More spans than the stamps that a writer keeps. */
static int in_a_large_ring(struct cluster *c, int rank)
{
    return around(c->engines[rank], rooted, (TTI_STAMPS + 6) * MOST_CHUNK, 0);
}

static uint64_t staged_in(const struct cluster *c, enum tti_stage_ring ring)
{
    uint64_t bytes = 0;
    for (int r = 0; r < c->layout.size; r++) {
        bytes += c->engines[r]->lanes[0].rings[ring].head;
    }
    return bytes;
}

/* Runs each rooted operation in a cluster of this tuning; all of them stage in that ring. */
static void run_rooted(int size, const struct tti_tuning *tuning, enum tti_stage_ring ring, rank_body body)
{
    static const tutti_operation all[] = {TUTTI_OP_BROADCAST, TUTTI_OP_GATHER, TUTTI_OP_SCATTER, TUTTI_OP_REDUCE};
    struct cluster c;
    assert_int_equal(cluster_open_tuned(&c, size, 1, *tuning, (struct waiting){1000, 20000, 0}), 0);
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        const uint64_t before = staged_in(&c, ring);
        rooted = all[k];
        assert_int_equal(cluster_run(&c, body), 0);
        assert_true(staged_in(&c, ring) > before);
    }
    cluster_close(&c);
}

static void rooted_in_the_small_ring(void **state)
{
    (void)state;
    for (int size = 2; size <= 3; size++) {
        struct tti_tuning_overrides wishes = no_overrides;
        wishes.window = 256 << 10;
        struct tti_tuning tuning = built_in_tuning(size, &wishes);
        tuning.stage_far = 0;
        tuning.stage_small = tuning.stage / 4;
        tuning.small_from_root = tuning.small_gather = tuning.small_reduce = TTI_TUNING_NEVER;
        run_rooted(size, &tuning, TTI_RING_SMALL, in_the_small_ring);
    }
}

static int parts_around_small_steps(struct cluster *c, int rank)
{
    static const size_t bytes[] = {SMALL_STEP, 3 * SMALL_STEP / 2, 2 * SMALL_STEP};
    struct tti_engine *e = c->engines[rank];
    const struct reference_call two_steps = {
        .kind = TUTTI_OP_ALL_GATHER, .dtype = TUTTI_F32, .size = e->size, .rows = 1, .count = bytes[2] / sizeof(float)};
    int failures = run_call(e, 0, &two_steps, NULL) + (e->lanes[0].rings[TTI_RING_FIRST].head != 0);
    for (int i = 0; i < repetitions(4) * 3; i++) {
        failures += around(e, TUTTI_OP_ALL_GATHER, bytes[i % 3], i);
    }
    return failures;
}

static void all_gather_in_small_steps(void **state)
{
    (void)state;
    struct tti_tuning_overrides wishes = no_overrides;
    struct cluster c;
    wishes.window = 256 << 10;
    struct tti_tuning tuning = built_in_tuning(2, &wishes);
    tuning.stage_far = 0;
    tuning.stage_small = tuning.stage / 4;
    tuning.small_from_root = TTI_TUNING_NEVER;
    assert_int_equal(cluster_open_tuned(&c, 2, 1, tuning, (struct waiting){1000, 20000, 0}), 0);
    assert_int_equal(cluster_run(&c, parts_around_small_steps), 0);
    cluster_close(&c);
}

static void rooted_in_a_large_ring(void **state)
{
    (void)state;
    struct tti_tuning_overrides wishes = no_overrides;
    wishes.stage = 32 << 20;
    struct tti_tuning tuning = built_in_tuning(2, &wishes);
    run_rooted(2, &tuning, TTI_RING_FIRST, in_a_large_ring);
}

static void nothing_before_the_first_call(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(cluster_open(&c, 1, 2, WINDOW, (struct waiting){1000, 20000, 0}), 0);
    int32_t value = 1;
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, &value, &value, 1, 0);
    tutti_error error;
    assert_null(tti_engine_algorithm(c.engines[0], 0));
    op.lane = 1;
    assert_int_equal(tti_engine_run(c.engines[0], &op, &error), TUTTI_OK);
    assert_null(tti_engine_algorithm(c.engines[0], 0));
    assert_string_equal(tti_engine_algorithm(c.engines[0], 1), "solo");
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staged),
        cmocka_unit_test(staged_with_all_packets),
        cmocka_unit_test(staged_without_packets_and_one_shot),
        cmocka_unit_test(zero_copy),
        cmocka_unit_test(rooted_in_the_small_ring),
        cmocka_unit_test(all_gather_in_small_steps),
        cmocka_unit_test(rooted_in_a_large_ring),
        cmocka_unit_test(nothing_before_the_first_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
