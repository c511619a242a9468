/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thresholds from profiles: within their bounds for every profile, in the right direction when a cost changes. The
 * user's settings come first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "engine/memory/layout.h"
#include "engine/tuning/tuning.h"
#include "unit/engine/built_in_tuning.h"

#define KIB UINT64_C(1024)

static struct tti_tuning fit(int size, int cpus, const struct tti_profile *p)
{
    struct tti_tuning t;
    tti_tuning_fit(size, cpus, p, &no_overrides, &t);
    return t;
}

static void check_bounds(int size, const struct tti_tuning *t)
{
    assert_int_equal(t->stage & (t->stage - 1), 0); /* rings are powers of two */
    assert_int_equal(t->stage_far & (t->stage_far - 1), 0);
    assert_int_equal(t->stage_small & (t->stage_small - 1), 0);
    assert_in_range(t->stage, 1024 * KIB, 64 * 1024 * KIB);
    assert_true(t->stage_far == 0 || t->stage_far >= 2 * t->stage);
    assert_true(2 * t->stage_small <= t->stage);
    assert_true(t->window >= (uint64_t)size * 64);
    assert_true(8 * t->window <= t->stage);
    assert_true(t->packets <= TTI_INLINE_MOST);
    assert_in_range(t->one_shot, 512, t->window);
    assert_true(t->reduce_sliced >= 512);
    assert_in_range(t->zero_copy, 1 * KIB, 64 * KIB);
    for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
        assert_true(t->streams[k] >= 128 * KIB);
    }
    assert_true(tti_tuning_is_valid(size, t));
}

static const int sizes[] = {1, 2, 3, 4, 5, 8, 16, 64, 65, 255, TTI_MAX_RANKS};
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static void test_unknown_is_built_in(void **state)
{
    (void)state;
    const struct tti_profile unknown = {0};
    for (int i = 0; i < SIZES; i++) {
        struct tti_tuning made = built_in_tuning(sizes[i], &no_overrides);
        const struct tti_tuning fitted = fit(sizes[i], sizes[i], &unknown);
        assert_memory_equal(&made, &fitted, sizeof(made));
        check_bounds(sizes[i], &made);
    }
}

/* Every member within its bounds, at them, or unknown. */
static void test_any_profile(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        struct tti_profile p;
        for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
            const struct tti_profile_field *f = &tti_profile_fields[i];
            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint64_t r = seed >> 33;
            const int64_t values[] = {0, f->least, f->most, f->least + (int64_t)(r / 8) % (f->most - f->least + 1)};
            tti_profile_set(&p, i, values[r % 4]);
        }
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int size = sizes[(seed >> 40) % SIZES];
        const int cpus = 1 + (int)((seed >> 50) % 70);
        const struct tti_tuning t = fit(size, cpus, &p);
        check_bounds(size, &t);
    }
}

static void test_more_ranks(void **state)
{
    (void)state;
    for (int cpus = 0; cpus <= 2; cpus++) { /* 0: as many as ranks */
        struct tti_tuning before = fit(2, cpus ? cpus : 2, &tti_profile_built_in);
        for (int size = 3; size <= 128; size++) {
            const struct tti_tuning t = fit(size, cpus ? cpus : size, &tti_profile_built_in);
            /* once ranks share CPUs, more ranks never make folding everything better */
            assert_true(t.one_shot <= before.one_shot || size == cpus + 1);
            assert_true(t.packets <= before.packets || size == cpus + 1);
            assert_true(t.stage <= before.stage);
            before = t;
        }
    }
}

static void test_costs(void **state)
{
    (void)state;
    struct tti_profile p = tti_profile_built_in;
    p.near_ns = 0; /* one kind of hop, so that it alone decides */
    p.near_mbs = 0;
    p.far_ns = 150;
    struct tti_tuning before = fit(8, 8, &p);
    for (p.far_ns = 200; p.far_ns <= 1500; p.far_ns += 50) { /* epochs become dearer */
        const struct tti_tuning t = fit(8, 8, &p);
        assert_true(t.one_shot >= before.one_shot);
        assert_true(t.zero_copy >= before.zero_copy);
        assert_true(t.packets <= before.packets);
        before = t;
    }
    assert_true(before.one_shot > fit(8, 8, &tti_profile_built_in).one_shot);

    p = tti_profile_built_in;
    before = fit(8, 2, &p);
    for (p.switch_ns = 2000; p.switch_ns <= 50000; p.switch_ns *= 2) {
        const struct tti_tuning t = fit(8, 2, &p);
        assert_true(t.one_shot > before.one_shot || t.one_shot == t.window);
        assert_true(t.zero_copy >= before.zero_copy);
        before = t;
    }
    assert_true(fit(8, 2, &p).packets < fit(4, 2, &p).packets);
    assert_int_equal(fit(32, 2, &p).packets, 0);
    assert_true(fit(32, 32, &p).packets > TTI_PAYLOAD);
    assert_true(fit(32, 32, &p).packets_root > fit(32, 32, &p).packets);
    assert_int_equal(fit(8, 2, &p).packets_root, fit(8, 2, &p).packets);
    assert_int_equal(fit(2, 2, &p).packets_root, fit(3, 3, &p).packets_root);
    assert_int_equal(fit(65, 65, &p).packets_root, 0);

    p = tti_profile_built_in;
    p.copy_mbs *= 4; /* bytes become cheaper */
    p.fold_mbs *= 4;
    p.near_mbs *= 4;
    p.far_mbs *= 4;
    assert_true(fit(8, 8, &p).one_shot > fit(8, 8, &tti_profile_built_in).one_shot);
}

/* A reduce by slices: for many ranks with a CPU each, from about where one-shot ends. */
static void test_reduce_sliced(void **state)
{
    (void)state;
    for (int size = 1; size <= TTI_MAX_RANKS; size++) {
        const struct tti_tuning t = fit(size, size, &tti_profile_built_in);
        assert_int_equal(t.reduce_sliced, size < 8 ? TTI_TUNING_NEVER : t.one_shot);
        if (size > 1) { /* ranks share CPUs */
            assert_int_equal(fit(size, size - 1, &tti_profile_built_in).reduce_sliced, TTI_TUNING_NEVER);
        }
    }
}

static void test_near_and_far(void **state)
{
    (void)state;
    struct tti_profile near = tti_profile_built_in;
    struct tti_profile far = tti_profile_built_in;
    near.far_ns = near.far_mbs = 0;
    far.near_ns = far.near_mbs = 0;
    const struct tti_tuning n = fit(2, 2, &near);
    const struct tti_tuning f = fit(2, 2, &far);
    const struct tti_tuning both = fit(2, 2, &tti_profile_built_in);
    assert_true(n.one_shot < both.one_shot && both.one_shot < f.one_shot);
    assert_true(n.packets > f.packets);
    assert_int_equal(both.packets, f.packets);
    near.cpus_stay = TTI_CPUS_MOVE; /* then the other kind has to be expected */
    const struct tti_tuning expected = fit(2, 2, &near);
    assert_int_equal(expected.packets, both.packets);
    assert_int_equal(expected.one_shot, both.one_shot);
}

static void test_caches(void **state)
{
    (void)state;
    struct tti_profile p = tti_profile_built_in;
    p.l2_bytes = 512 * 1024;
    assert_int_equal(fit(2, 2, &p).stage, 1024 * KIB);
    p.l2_bytes = 2048 * 1024;
    assert_int_equal(fit(2, 2, &p).stage, 4096 * KIB);
    p.l3_bytes = 8192 * 1024; /* no room for more */
    assert_int_equal(fit(2, 2, &p).stage, 2048 * KIB);

    p = tti_profile_built_in;
    p.model = TTI_MODEL_INTEL;
    assert_true(fit(2, 2, &p).stage_far >= 2 * fit(2, 2, &p).stage);
    assert_int_equal(fit(2, 2, &p).stage_small, 0);
    p.model = TTI_MODEL_ZEN_3;
    assert_true(fit(2, 2, &p).stage_far >= 2 * fit(2, 2, &p).stage);
    assert_int_equal(fit(2, 2, &p).stage_small, p.l2_bytes / 2);
    assert_int_equal(fit(2, 2, &p).packets_root, TTI_PAYLOAD + 4 * TTI_PACKET_DATA);
    assert_true(fit(2, 2, &p).packets <= fit(2, 2, &p).packets_root);
    assert_true(fit(3, 3, &p).packets_root > fit(2, 2, &p).packets_root);
    assert_int_equal(fit(2, 2, &p).claims, 0);
    assert_int_equal(fit(2, 2, &p).stream_to_far, 1);
    p.model = TTI_MODEL_ZEN_5;
    assert_int_equal(fit(2, 2, &p).stage_far, 0);
    assert_int_equal(fit(2, 2, &p).stage_small, p.l2_bytes / 2);
    assert_int_equal(fit(64, 64, &p).stage_small, 512 * KIB);
    assert_int_equal(fit(2, 2, &p).small_from_root, TTI_TUNING_NEVER);
    assert_int_equal(fit(2, 1, &p).small_from_root, 16 * KIB);
    assert_int_equal(fit(3, 3, &p).small_from_root, 16 * KIB);
    assert_int_equal(fit(2, 2, &p).small_gather, TTI_TUNING_NEVER);
    assert_int_equal(fit(3, 3, &p).small_gather, 16 * KIB);
    assert_int_equal(fit(2, 1, &p).small_gather, TTI_TUNING_NEVER);
    assert_int_equal(fit(7, 2, &p).small_reduce, 16 * KIB);
    assert_int_equal(fit(8, 2, &p).small_reduce, TTI_TUNING_NEVER);
    assert_int_equal(fit(2, 2, &p).packets, TTI_PAYLOAD + 2 * TTI_PACKET_DATA);
    assert_int_equal(fit(2, 2, &p).packets_root, fit(2, 2, &p).packets);
    assert_true(fit(3, 3, &p).packets_root > fit(3, 3, &p).packets);
    assert_int_equal(fit(2, 2, &p).one_shot, fit(2, 2, &p).window);
    assert_true(fit(2, 1, &p).one_shot < fit(2, 1, &p).window);
    assert_true(fit(3, 3, &p).one_shot < fit(3, 3, &p).window);
    assert_int_equal(fit(16, 16, &p).single_copy, TTI_TUNING_NEVER);
    assert_int_equal(fit(16, 16, &p).single_copy_messages, 0);
    assert_int_equal(fit(2, 2, &p).claims + fit(2, 2, &p).stream_to_far, 0);
    p.model = TTI_MODEL_INTEL;
    assert_int_equal(fit(4, 4, &p).single_copy, 64 << 20);
    assert_int_equal(fit(16, 4, &p).single_copy, 64 << 20);
    assert_int_equal(fit(16, 16, &p).single_copy, 1 << 20);
    assert_int_equal(fit(2, 2, &p).single_copy_messages, 1);
    assert_int_equal(fit(2, 2, &p).claims + fit(2, 2, &p).stream_to_far, 0);
    p.model = TTI_MODEL_OTHER;
    assert_int_equal(fit(4, 4, &p).single_copy, TTI_TUNING_NEVER);
    assert_int_equal(fit(16, 16, &p).single_copy, 1 << 20);
    assert_int_equal(fit(2, 2, &p).single_copy_messages, 1);
    assert_int_equal(fit(2, 2, &p).claims, 1);
    assert_int_equal(fit(2, 2, &p).stream_to_far, 0);
}

/* Sixteen ranks begin at so many eighths of their CPUs' last-level caches; 0: never. */
static void expect_streams(int cpus, const struct tti_profile *p, enum tti_stream_kind kind, uint64_t eighths)
{
    const uint64_t caches = (uint64_t)p->l3_bytes * (uint64_t)(cpus / p->l3_cpus);
    assert_int_equal(fit(16, cpus, p).streams[kind], eighths > 0 ? caches / 8 * eighths : TTI_TUNING_NEVER);
}

static void test_streams(void **state)
{
    (void)state;
    static const struct {
        int model, cpus;
        uint64_t fast[TTI_STREAM_KINDS]; /* where streams are faster than other copies from memory */
        uint64_t slow[TTI_STREAM_KINDS]; /* where they are not */
    } rows[] = {
        {TTI_MODEL_OTHER, 16, {8, 8, 8, 8, 8, 8, 0}, {0}},
        {TTI_MODEL_OTHER, 4, {8, 8, 8, 16, 8, 8, 0}, {0}},
        {TTI_MODEL_INTEL, 16, {8, 8, 8, 6, 6, 8, 6}, {0, 0, 0, 6, 6, 0, 6}},
        {TTI_MODEL_INTEL, 8, {8, 8, 8, 0, 0, 0, 0}, {0}},
        {TTI_MODEL_INTEL, 4, {8, 8, 8, 0, 0, 0, 0}, {0}},
        {TTI_MODEL_ZEN_5, 16, {8, 8, 8, 8, 8, 8, 0}, {0, 0, 0, 8, 8, 0, 0}},
        {TTI_MODEL_ZEN_5, 4, {8, 8, 8, 16, 4, 8, 0}, {0, 0, 0, 16, 4, 0, 0}},
        {TTI_MODEL_ZEN_3, 16, {8, 4, 4, 4, 4, 8, 0}, {0, 0, 0, 4, 4, 0, 0}},
        {TTI_MODEL_ZEN_3, 4, {8, 4, 5, 6, 4, 8, 0}, {0, 0, 0, 6, 4, 0, 0}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tti_profile fast = tti_profile_built_in;
        fast.l3_cpus = 4;
        fast.model = rows[i].model;
        struct tti_profile slow = fast;
        slow.stream_mbs = slow.memory_mbs;
        for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
            expect_streams(rows[i].cpus, &fast, k, rows[i].fast[k]);
            expect_streams(rows[i].cpus, &slow, k, rows[i].slow[k]);
        }
    }
    struct tti_profile p = tti_profile_built_in;
    p.l3_cpus = 4;
    assert_int_equal(fit(2, 16, &p).streams[TTI_STREAM_DIRECT], p.l3_bytes); /* of the ranks' CPUs only */
}

static void test_streams_of_cold_outputs(void **state)
{
    (void)state;
    for (int model = TTI_MODEL_OTHER; model <= TTI_MODEL_ZEN_3; model++) {
        struct tti_profile p = tti_profile_built_in;
        p.l3_cpus = 4;
        p.model = model;
        for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
            const bool joined = k == TTI_STREAM_ALL_GATHER || k == TTI_STREAM_ALL_TO_ALL;
            const bool gains = model == TTI_MODEL_ZEN_3 && (joined || k == TTI_STREAM_ROOTED);
            const uint64_t eighth = (uint64_t)p.l3_bytes / 8;
            const uint64_t expected = !gains ? TTI_TUNING_NEVER : joined ? 2 * eighth : eighth;
            assert_int_equal(fit(2, 16, &p).streams_if_cold[k], expected);
            assert_int_equal(fit(8, 2, &p).streams_if_cold[k], expected); /* both CPUs have the same one */
        }
    }
}

static void test_wishes(void **state)
{
    (void)state;
    const struct tti_tuning_overrides wishes = {.stage = 8 << 20,
                                                .window = 1 << 20,
                                                .packets = 150,
                                                .one_shot = 0,
                                                .reduce_sliced = 5,
                                                .stream = 7,
                                                .zero_copy = 3};
    struct tti_tuning t;
    tti_tuning_fit(8, 2, &tti_profile_built_in, &wishes, &t);
    assert_int_equal(t.stage, 8 << 20);
    assert_int_equal(t.window, 1 << 20);
    assert_int_equal(t.stage_far, 0);
    assert_int_equal(t.stage_small, 0);
    assert_int_equal(t.packets, 150);
    assert_int_equal(t.packets_root, 150);
    assert_int_equal(t.one_shot, 0);
    assert_int_equal(t.reduce_sliced, 5);
    for (enum tti_stream_kind k = 0; k < TTI_STREAM_KINDS; k++) {
        assert_int_equal(t.streams[k], 7);
        assert_int_equal(t.streams_if_cold[k], 7);
    }
    assert_int_equal(t.zero_copy, 3);
}

static void test_wishes_for_single_copy(void **state)
{
    (void)state;
    struct tti_tuning_overrides wishes = no_overrides;
    struct tti_profile zen_5 = tti_profile_built_in;
    struct tti_tuning t;
    zen_5.model = TTI_MODEL_ZEN_5;
    wishes.single_copy = 5;
    tti_tuning_fit(8, 2, &zen_5, &wishes, &t);
    assert_int_equal(t.single_copy, 5);
    assert_int_equal(t.single_copy_at_any_distance, 1);
    wishes.no_single_copy = true;
    const struct tti_profile *profiles[] = {&zen_5, &tti_profile_built_in};
    for (int i = 0; i < 2; i++) {
        tti_tuning_fit(8, 2, profiles[i], &wishes, &t);
        assert_int_equal(t.single_copy, TTI_TUNING_NEVER);
        assert_int_equal(t.single_copy_messages, 0);
    }
}

/* The thresholds of a group come from its rank 0. The other ranks refuse values that lead beyond their memory. */
static void test_cannot_be(void **state)
{
    (void)state;
    static const int64_t windows[] = {-1, 16 * 1024, 20000, 1 << 20, 64 << 20};
    static const int64_t stages[] = {-1, 256 * 1024, 300000, 1 << 20, 1 << 30};
    for (int i = 0; i < SIZES * 25; i++) { /* any settings of a user */
        const struct tti_tuning_overrides wishes = {.stage = stages[i / 5 % 5],
                                                    .window = windows[i % 5],
                                                    .packets = TTI_INLINE_MOST,
                                                    .one_shot = INT64_C(1) << 36};
        struct tti_tuning t;
        tti_tuning_fit(sizes[i / 25], 2, &tti_profile_built_in, &wishes, &t);
        assert_true(tti_tuning_is_valid(sizes[i / 25], &t));
    }
    const struct tti_tuning good = fit(4, 4, &tti_profile_built_in);
    static const struct {
        size_t at;
        uint64_t value;
    } wrong[] = {
        {offsetof(struct tti_tuning, stage), 0},
        {offsetof(struct tti_tuning, stage), (1 << 20) + 1},
        {offsetof(struct tti_tuning, stage), UINT64_C(1) << 40},
        {offsetof(struct tti_tuning, stage), UINT64_MAX},
        {offsetof(struct tti_tuning, stage_far), 12345},
        {offsetof(struct tti_tuning, stage_far), 4096},
        {offsetof(struct tti_tuning, stage_small), UINT64_C(1) << 63},
        {offsetof(struct tti_tuning, window), 0},
        {offsetof(struct tti_tuning, window), 8192 + 64},
        {offsetof(struct tti_tuning, window), UINT64_C(1) << 32},
        {offsetof(struct tti_tuning, packets), TTI_INLINE_MOST + 1},
        {offsetof(struct tti_tuning, packets_root), TTI_INLINE_MOST + 1},
        {offsetof(struct tti_tuning, one_shot), UINT64_C(1) << 62},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tti_tuning t = good;
        memcpy((char *)&t + wrong[i].at, &wrong[i].value, sizeof(wrong[i].value));
        assert_false(tti_tuning_is_valid(4, &t));
    }
    assert_false(tti_tuning_is_valid(TTI_MAX_RANKS, &(struct tti_tuning){.stage = 1 << 20, .window = 8192}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_is_built_in),
        cmocka_unit_test(test_any_profile),
        cmocka_unit_test(test_more_ranks),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_near_and_far),
        cmocka_unit_test(test_reduce_sliced),
        cmocka_unit_test(test_caches),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_streams_of_cold_outputs),
        cmocka_unit_test(test_wishes),
        cmocka_unit_test(test_wishes_for_single_copy),
        cmocka_unit_test(test_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
