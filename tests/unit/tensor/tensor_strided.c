/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * Packing and unpacking of strided tensors, and the classification of their layouts, against element-by-element
 * references.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/strided.h"
#include "tests/unit/strided_place.h"

enum { BYTES = 4096, MIDDLE = 2048 };

static unsigned char memory[BYTES];
static unsigned char packed[BYTES];
static unsigned char back[BYTES];

static void check_copies(const DLTensor *t)
{
    const size_t size = t->dtype.bits / 8u;
    const int64_t count = tutti_tensor_count(t);
    for (size_t i = 0; i < BYTES; i++) {
        memory[i] = (unsigned char)(i * 31 + i / 256);
    }
    memset(packed, 0xee, sizeof(packed));
    tti_tensor_pack(packed, t);
    for (int64_t i = 0; i < count; i++) {
        assert_memory_equal(packed + (size_t)i * size, (char *)tti_tensor_data(t) + place_of(t, i), size);
    }
    for (size_t i = (size_t)count * size; i < BYTES; i++) {
        assert_int_equal(packed[i], 0xee);
    }
    /* Unpacking other values touches the tensor's elements and nothing else. */
    memcpy(back, memory, sizeof(back));
    for (int64_t i = 0; i < count; i++) {
        unsigned char *element = packed + (size_t)i * size;
        for (size_t b = 0; b < size; b++) {
            element[b] = (unsigned char)~element[b];
        }
        memcpy(back + ((unsigned char *)tti_tensor_data(t) - memory) + place_of(t, i), element, size);
    }
    tti_tensor_unpack(t, packed);
    assert_memory_equal(memory, back, sizeof(memory));
}

/* Whether two elements share a byte, by marking every one. */
static bool overlaps_by_marking(const DLTensor *t)
{
    static unsigned char mark[BYTES];
    const int64_t size = t->dtype.bits / 8;
    const int64_t count = tutti_tensor_count(t);
    memset(mark, 0, sizeof(mark));
    for (int64_t i = 0; i < count; i++) {
        unsigned char *cell = &mark[MIDDLE + place_of(t, i) / size];
        if (*cell) {
            return true;
        }
        *cell = 1;
    }
    return false;
}

static void test_random_layouts(void **unused)
{
    (void)unused;
    static const tutti_dtype dtypes[] = {TUTTI_U8, TUTTI_F16, TUTTI_F32, TUTTI_F64};
    uint32_t state = 1;
    int overlapping = 0;
    int disjoint = 0;
    for (int round = 0; round < 20000; round++) {
        int64_t shape[4];
        int64_t strides[4];
        const int32_t ndim = (int32_t)random_below(&state, 5);
        for (int32_t i = 0; i < ndim; i++) {
            shape[i] = random_below(&state, 5);
            strides[i] = (int64_t)random_below(&state, 31) - (round % 2 ? 15 : 0);
        }
        DLTensor t = tutti_tensor_nd(memory, ndim, shape, dtypes[random_below(&state, 4)]);
        t.strides = strides;
        t.byte_offset = MIDDLE;
        const bool overlaps = overlaps_by_marking(&t);
        overlapping += overlaps;
        disjoint += !overlaps;
        assert_int_equal(tti_tensor_self_overlaps(&t), overlaps);
        if (!overlaps) {
            check_copies(&t);
        }
    }
    assert_true(overlapping > 1000);
    assert_true(disjoint > 1000);
}

/* A slice of rows, a transposed and a reversed matrix, and a compact one. */
static void test_common_layouts(void **unused)
{
    (void)unused;
    int64_t shape[3] = {4, 3, 5};
    int64_t slice[3] = {40, 10, 1};
    int64_t transposed[3] = {1, 4, 12};
    int64_t reversed[3] = {-15, -5, -1};
    int64_t *layouts[] = {NULL, slice, transposed, reversed};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        DLTensor t = tutti_tensor_nd(memory, 3, shape, TUTTI_F32);
        t.strides = layouts[i];
        t.byte_offset = MIDDLE;
        assert_false(tti_tensor_self_overlaps(&t));
        check_copies(&t);
    }
}

static void test_overlaps_of_any_size(void **unused)
{
    (void)unused;
    const int64_t large = INT64_C(1000000000);
    int64_t shape[2] = {large, large};
    DLTensor t = tutti_tensor_nd(memory, 2, shape, TUTTI_U8);
    int64_t strides[2] = {large, 1};
    t.strides = strides;
    assert_false(tti_tensor_self_overlaps(&t));
    strides[0] = large - 1; /* the last element of a row is the first of the next */
    assert_true(tti_tensor_self_overlaps(&t));
    strides[0] = 0;
    assert_true(tti_tensor_self_overlaps(&t));
    strides[0] = large + 9; /* primes: both reach the same place only after a prime number of steps, beyond the shape */
    strides[1] = large + 7;
    assert_false(tti_tensor_self_overlaps(&t));
    shape[0] = large + 8;
    shape[1] = large + 10;
    assert_true(tti_tensor_self_overlaps(&t));
    strides[0] = INT64_MIN;
    assert_true(tti_tensor_self_overlaps(&t));
    shape[0] = 1; /* a stride that is never taken */
    assert_false(tti_tensor_self_overlaps(&t));
}

static void test_span(void **unused)
{
    (void)unused;
    uintptr_t begin;
    uintptr_t end;
    int64_t shape[2] = {3, 4};
    int64_t strides[2] = {-10, 2};
    const uintptr_t first = (uintptr_t)memory + MIDDLE;
    DLTensor t = tutti_tensor_nd(memory, 2, shape, TUTTI_F32);
    t.byte_offset = MIDDLE;
    assert_true(tti_tensor_span(&t, &begin, &end));
    assert_int_equal(begin, first);
    assert_int_equal(end, first + 48);
    t.strides = strides;
    assert_true(tti_tensor_span(&t, &begin, &end));
    assert_int_equal(begin, first - 80);
    assert_int_equal(end, first + 28);
    shape[0] = 0;
    assert_true(tti_tensor_span(&t, &begin, &end));
    assert_int_equal(begin, end);
    shape[0] = -1;
    assert_false(tti_tensor_span(&t, &begin, &end));
    shape[0] = 3;
    strides[0] = INT64_MAX;
    assert_false(tti_tensor_span(&t, &begin, &end));
    strides[0] = INT64_MAX / 2;
    assert_false(tti_tensor_span(&t, &begin, &end)); /* fits in elements, not in bytes */
    strides[0] = INT64_MIN;
    assert_false(tti_tensor_span(&t, &begin, &end));
    strides[0] = -(INT64_C(1) << 60);
    assert_false(tti_tensor_span(&t, &begin, &end)); /* below address 0 */
    strides[0] = 4;
    t.byte_offset = UINT64_MAX;
    assert_false(tti_tensor_span(&t, &begin, &end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_layouts),
        cmocka_unit_test(test_common_layouts),
        cmocka_unit_test(test_overlaps_of_any_size),
        cmocka_unit_test(test_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
