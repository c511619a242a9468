/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors, and their text. A text has the fields of its operation and no others, and it names shapes. Calls that
 * differ in one thing have different descriptors, even if the number of elements is the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unit/engine/engine_support.h"

#define RANKS 4

static void expect_text(const tutti_op *op, const char *text)
{
    uint64_t descriptor[2];
    char got[160];
    tti_descriptor_make(op, RANKS, descriptor);
    tti_descriptor_text(descriptor, got, sizeof(got));
    assert_string_equal(got, text);
}

static tutti_op plain(tutti_operation kind)
{
    tutti_op op = op_of(kind, NULL, NULL, 12, 0);
    op.redop =
        kind == TUTTI_OP_ALL_REDUCE || kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_REDUCE_SCATTER ? TUTTI_MAX : 0;
    return op;
}

static void each_operation_has_its_fields(void **state)
{
    (void)state;
    static const struct {
        tutti_operation kind;
        const char *first;  /* root 0, dim 0, tag 0 */
        const char *second; /* root 3, dim 1 where it has them, and a tag */
    } rows[] = {
        {TUTTI_OP_ALL_REDUCE, "all_reduce(i32 max, count 12)", "all_reduce(i32 max, count 12, tag 4000000000)"},
        {TUTTI_OP_REDUCE, "reduce(i32 max, count 12, root 0)", "reduce(i32 max, count 12, root 3, tag 4000000000)"},
        {TUTTI_OP_BROADCAST, "broadcast(i32, count 12, root 0)", "broadcast(i32, count 12, root 3, tag 4000000000)"},
        {TUTTI_OP_ALL_GATHER, "all_gather(i32, count 12, dim 0)", "all_gather(i32, count 12, dim 1, tag 4000000000)"},
        {TUTTI_OP_GATHER, "gather(i32, count 12, root 0, dim 0)",
         "gather(i32, count 12, root 3, dim 1, tag 4000000000)"},
        {TUTTI_OP_SCATTER, "scatter(i32, count 12, root 0, dim 0)",
         "scatter(i32, count 12, root 3, dim 1, tag 4000000000)"},
        {TUTTI_OP_REDUCE_SCATTER, "reduce_scatter(i32 max, count 12, dim 0)",
         "reduce_scatter(i32 max, count 12, dim 1, tag 4000000000)"},
        {TUTTI_OP_ALL_TO_ALL, "all_to_all(i32, count 12, dim 0)", "all_to_all(i32, count 12, dim 1, tag 4000000000)"},
        {TUTTI_OP_BARRIER, "barrier", "barrier(tag 4000000000)"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tutti_op op = plain(rows[i].kind);
        expect_text(&op, rows[i].first);
        op.root = 3;
        op.dim = 1;
        op.user_tag = 4000000000u;
        expect_text(&op, rows[i].second);
    }
}

static void marks_are_reported(void **state)
{
    (void)state;
    tutti_op op = plain(TUTTI_OP_BROADCAST);
    uint64_t descriptor[2];
    char text[160];
    tti_descriptor_make(&op, RANKS, descriptor);
    tti_descriptor_agree(descriptor); /* the extra round is no property of the call */
    tti_descriptor_text(descriptor, text, sizeof(text));
    assert_string_equal(text, "broadcast(i32, count 12, root 0)");
    op.flags = TUTTI_CANCELLABLE;
    tti_descriptor_make(&op, RANKS, descriptor);
    tti_descriptor_text(descriptor, text, sizeof(text));
    assert_string_equal(text, "cancellable broadcast(i32, count 12, root 0)");
    assert_int_equal(tti_descriptor_failed(descriptor), TUTTI_OK);
    tti_descriptor_cancel(descriptor);
    assert_int_equal(tti_descriptor_failed(descriptor), TUTTI_CANCELLED);
    tti_descriptor_text(descriptor, text, sizeof(text));
    assert_string_equal(text, "cancellable broadcast(i32, count 12, root 0)");
    op.user_tag = 8;
    tti_descriptor_make(&op, RANKS, descriptor);
    for (int agrees = 0; agrees < 2; agrees++) {
        uint64_t failed[2] = {descriptor[0], descriptor[1]};
        if (agrees) {
            tti_descriptor_agree(failed);
        }
        tti_descriptor_fail(failed, TUTTI_NO_RESOURCE);
        assert_int_equal(tti_descriptor_failed(failed), TUTTI_NO_RESOURCE);
        assert_int_equal(tti_descriptor_operation(failed), TUTTI_OP_BROADCAST);
        assert_int_equal(tti_kind_waits_for_all(tti_descriptor_kind(failed)), agrees);
        tti_descriptor_text(failed, text, sizeof(text)); /* the status takes the place of the tag */
        assert_string_equal(text, "cancellable broadcast(i32, count 12, root 0)");
    }
}

static tutti_op shaped(int32_t ndim, const int64_t *shape)
{
    tutti_op op = plain(TUTTI_OP_ALL_REDUCE);
    op.count = 1;
    for (int32_t d = 0; d < ndim; d++) {
        op.count *= (size_t)shape[d];
    }
    op.shape_code = tti_shape_code(ndim, shape, -1);
    return op;
}

static void shapes_are_named(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t shape[6];
        const char *text;
    } rows[] = {
        {0, {0}, "all_reduce(i32 max, count 1)"},
        {1, {12}, "all_reduce(i32 max, count 12)"},
        {1, {INT64_C(1) << 40}, "all_reduce(i32 max, count 1099511627776)"},
        {2, {4, 3}, "all_reduce(i32 max, [4, 3])"},
        {2, {2, 6}, "all_reduce(i32 max, [2, 6])"},
        {2, {12, 1}, "all_reduce(i32 max, [12, 1])"},
        {3, {2, 3, 50000}, "all_reduce(i32 max, [2, 3, 50000])"},
        {4, {2, 3, 5, 7}, "all_reduce(i32 max, [2, 3, 5, 7])"},
        {2, {1 << 20, 1 << 20}, "all_reduce(i32 max, [1048576, 1048576])"},
        {2, {151936, 8192}, "all_reduce(i32 max, [151936, 8192])"},
        {2, {3, (1 << 26) + 1}, "all_reduce(i32 max, [3, ...])"},
        {4, {1, 1, 1, 511}, "all_reduce(i32 max, [1, 1, 1, 511])"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const tutti_op op = shaped(rows[i].ndim, rows[i].shape);
        expect_text(&op, rows[i].text);
    }
    /* too many dimensions, a dimension that is too long, an empty one: the text has a number for the shape */
    static const int64_t others[][6] = {{2, 2, 2, 2, 2, 2}, {1, 1 << 20, 1, 64, 1, 1}, {0, 4, 3, 1, 1, 1}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const tutti_op op = shaped(i == 0 ? 6 : 4, others[i]);
        uint64_t descriptor[2];
        char text[160];
        char begin[60];
        tti_descriptor_make(&op, RANKS, descriptor);
        tti_descriptor_text(descriptor, text, sizeof(text));
        snprintf(begin, sizeof(begin), "all_reduce(i32 max, %zu elements in shape #", op.count);
        assert_memory_equal(text, begin, strlen(begin));
    }
}

static bool differ(const tutti_op *a, const tutti_op *b)
{
    uint64_t x[2];
    uint64_t y[2];
    tti_descriptor_make(a, RANKS, x);
    tti_descriptor_make(b, RANKS, y);
    return x[0] != y[0] || x[1] != y[1];
}

/* All shapes of 5040 elements, and of none, in up to four dimensions: no two have the same descriptor. */
static void shapes_of_one_count_differ(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 10, 12, 14, 30, 70, 72, 840, 5040};
    enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), MOST = 2000 };
    static tutti_op ops[MOST];
    size_t count = 0;
    for (int32_t ndim = 2; ndim <= 4; ndim++) {
        int64_t shape[4] = {1, 1, 1, 1};
        for (size_t pick = 0; pick < (size_t)LENGTHS * LENGTHS * LENGTHS * LENGTHS; pick++) {
            int64_t product = 1;
            size_t rest = pick;
            for (int32_t d = 0; d < ndim; d++) {
                shape[d] = lengths[rest % LENGTHS];
                rest /= LENGTHS;
                product *= shape[d];
            }
            if (rest == 0 && product == 5040 && count < MOST) {
                ops[count++] = shaped(ndim, shape);
            }
        }
    }
    assert_true(count > 100);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < a; b++) {
            assert_true(differ(&ops[a], &ops[b]));
        }
    }
    static const int64_t empty[][3] = {{0, 3, 4}, {0, 4, 3}, {3, 0, 4}, {0, 0, 4}};
    for (size_t a = 0; a < 4; a++) {
        for (size_t b = 0; b < a; b++) {
            const tutti_op x = shaped(3, empty[a]);
            const tutti_op y = shaped(3, empty[b]);
            assert_true(differ(&x, &y));
        }
    }
}

/* Shapes that differ in their last length only, with so many elements that the descriptor has no room for the
 * number. */
static void large_shapes_differ(void **state)
{
    (void)state;
    static const struct {
        int32_t ndim;
        int64_t first[5]; /* all lengths but the last */
    } rows[] = {{2, {2}}, {2, {1}}, {3, {3, 5}}, {4, {1, 2, 3}}, {3, {1 << 20, 2}}, {6, {2, 1, 2, 1, 2}}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int bits = 20; bits < 34; bits++) {
            int64_t shape[6];
            memcpy(shape, rows[i].first, sizeof(rows[i].first));
            shape[rows[i].ndim - 1] = INT64_C(1) << bits;
            const tutti_op a = shaped(rows[i].ndim, shape);
            const int64_t factors[] = {2, 3, 4, 1024};
            for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
                shape[rows[i].ndim - 1] = factors[f] << bits;
                const tutti_op b = shaped(rows[i].ndim, shape);
                assert_true(differ(&a, &b));
            }
        }
    }
}

/* Parts of different length: the rank does not count, all lengths and the shape do. */
static void parts_of_different_length(void **state)
{
    (void)state;
    const int64_t counts[RANKS] = {1, 2, 3, 4};
    const int64_t others[RANKS] = {1, 2, 4, 3};
    const int64_t wide[2] = {1, 6};
    const int64_t deep[3] = {1, 2, 3};
    tutti_op a = plain(TUTTI_OP_ALL_GATHER);
    a.recv_parts = (tutti_parts){.outer = 1, .pitch = 240, .unit = 24, .counts = counts};
    a.shape_code = tti_shape_code(2, wide, 0);
    tutti_op b = a;
    b.count = 18;
    b.shape_code = tti_shape_code(2, (const int64_t[]){3, 6}, 0);
    assert_false(differ(&a, &b));
    b.recv_parts.counts = others;
    assert_true(differ(&a, &b));
    b = a;
    b.shape_code = tti_shape_code(3, deep, 0);
    assert_true(differ(&a, &b));
    a.kind = b.kind = TUTTI_OP_ALL_TO_ALL;
    a.send_parts = b.send_parts = a.recv_parts;
    assert_true(differ(&a, &b));
    b.shape_code = a.shape_code;
    b.send_parts.counts = others; /* all_to_all compares them pair by pair */
    assert_false(differ(&a, &b));
}

/* The error names both calls, and why a rank cannot take part. */
static void errors_name_both_calls(void **state)
{
    (void)state;
    tutti_op op = plain(TUTTI_OP_ALL_REDUCE);
    uint64_t descriptors[2][2];
    tutti_error e;
    tti_descriptor_make(&op, RANKS, descriptors[0]);
    op.count = 13;
    tti_descriptor_make(&op, RANKS, descriptors[1]);
    const struct tti_rank_call own = {.rank = 2, .descriptor = descriptors[0]};
    struct tti_rank_call peer = {.rank = 3, .descriptor = descriptors[1]};
    assert_int_equal(tti_calls_differ(&peer, &own, 7, 1, &e), TUTTI_MISMATCH);
    assert_true(e.status == TUTTI_MISMATCH && e.suspect == 3);
    assert_string_equal(e.message, "rank 3 called all_reduce(i32 max, count 13), but rank 2 called "
                                   "all_reduce(i32 max, count 12) (call 7 of lane 1)");
    peer.failed = TUTTI_CANCELLED;
    tti_calls_differ(&peer, &own, 7, 1, &e);
    assert_string_equal(e.message, "rank 3 called all_reduce(i32 max, count 13) and cannot take part: the operation "
                                   "was cancelled before it started, but rank 2 called all_reduce(i32 max, count 12) "
                                   "(call 7 of lane 1)");
}

/* A text that does not fit is cut. */
static void short_room(void **state)
{
    (void)state;
    const int64_t shape[4] = {2, 3, 5, 7};
    const tutti_op op = shaped(4, shape);
    uint64_t descriptor[2];
    tti_descriptor_make(&op, RANKS, descriptor);
    for (size_t room = 1; room < 50; room++) {
        char text[64];
        memset(text, '#', sizeof(text));
        tti_descriptor_text(descriptor, text, room);
        assert_true(strlen(text) < room);
        assert_int_equal(text[room], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_has_its_fields),
        cmocka_unit_test(marks_are_reported),
        cmocka_unit_test(shapes_are_named),
        cmocka_unit_test(shapes_of_one_count_differ),
        cmocka_unit_test(large_shapes_differ),
        cmocka_unit_test(parts_of_different_length),
        cmocka_unit_test(errors_name_both_calls),
        cmocka_unit_test(short_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
