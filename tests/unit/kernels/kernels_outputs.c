/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * The forms of a fold that write elsewhere than to one destination through the caches (tti_fold_push, tti_fold_stream)
 * and tti_copy_stream, against tti_fold and memcpy: every dtype and reduce op, every alignment, ragged lengths, with
 * guards around the outputs, in place where that is allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels_inputs.h"

enum { SOURCES = 5, BYTES = 3 * 4096 + 200, GUARD = 128, ROOM = BYTES + 64 + 2 * GUARD };

/* In bytes, rounded down to elements: around lines, the tiles of both forms, and several of them. */
static const size_t lengths[] = {0, 8, 63, 64, 65, 200, 1016, 1024, 1100, 2048, 4095, 4096, 4104, 5000, BYTES};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static _Alignas(64) unsigned char inputs[SOURCES][ROOM];
static _Alignas(64) unsigned char outputs[SOURCES][ROOM];
static _Alignas(64) unsigned char wanted[ROOM];
static double scales[SOURCES];
static uint64_t state = 11;

static void fill(tutti_dtype dtype)
{
    const size_t size = tutti_dtype_size(dtype);
    for (size_t k = 0; k < SOURCES; k++) {
        scales[k] = random_scale(dtype, &state);
        for (size_t i = 0; i < sizeof(inputs[k]) / size; i++) {
            store_element(inputs[k], i, size, random_element(dtype, &state));
        }
    }
}

/* `bytes` from GUARD + offset on are as wanted, and no other byte was written. */
static void expect(const unsigned char *out, size_t offset, size_t bytes, const char *what, const struct tti_fold *fold)
{
    const size_t begin = GUARD + offset;
    for (size_t i = 0; i < ROOM; i++) {
        const bool inside = i >= begin && i < begin + bytes;
        const unsigned char right = inside ? wanted[i - begin] : 0xa5;
        if (out[i] != right) {
            fail_msg("%s, %s %s, offset %zu, %zu bytes: byte %zd is 0x%02x, not 0x%02x", what,
                     fold ? tutti_dtype_name(fold->dtype) : "", fold ? tutti_reduce_op_name(fold->op) : "", offset,
                     bytes, (ptrdiff_t)i - (ptrdiff_t)begin, out[i], right);
        }
    }
}

/* Calls f for every valid pair of dtype and reduce op. */
static void for_each_fold(void (*f)(const struct tti_fold *fold))
{
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        fill(dtype);
        for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
            if (tutti_reduce_op_valid(op, dtype)) {
                f(&(struct tti_fold){.dtype = dtype, .op = op, .scales = op == TUTTI_PREMUL_SUM ? scales : NULL});
            }
        }
    }
}

/* One fold into memory at `offset`, with sources that lie elsewhere in their lines. */
static void stream_once(const struct tti_fold *fold, size_t n, size_t offset, size_t bytes)
{
    const size_t size = tutti_dtype_size(fold->dtype);
    const size_t count = bytes / size;
    const void *src[SOURCES];
    for (size_t k = 0; k < n; k++) {
        src[k] = inputs[k] + (offset * (k + 3) + 8 * k) % 64 / size * size;
    }
    memset(outputs[0], 0xa5, sizeof(outputs[0]));
    tti_fold(wanted, src, n, count, fold);
    tti_fold_stream(outputs[0] + GUARD + offset, src, n, count, fold);
    expect(outputs[0], offset, count * size, "stream", fold);
}

static void stream_lengths(const struct tti_fold *fold)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        stream_once(fold, 1 + i % SOURCES, 8 * i % 64, lengths[i]);
    }
}

static void stream_offsets(const struct tti_fold *fold)
{
    for (size_t offset = 0; offset < 64 && fold->op == TUTTI_SUM; offset++) {
        stream_once(fold, 2, offset, 2000 + 24 * offset);
    }
}

static void test_stream(void **unused)
{
    (void)unused;
    for_each_fold(stream_lengths);
    for_each_fold(stream_offsets);
}

/* As many outputs as sources; with `in_place`, output k is source k. */
static void push_once(const struct tti_fold *fold, size_t n, size_t offset, size_t bytes, bool in_place)
{
    const size_t size = tutti_dtype_size(fold->dtype);
    const size_t count = bytes / size;
    const void *src[SOURCES];
    void *dst[SOURCES];
    for (size_t k = 0; k < n; k++) {
        memset(outputs[k], 0xa5, sizeof(outputs[k]));
        dst[k] = outputs[k] + GUARD + offset;
        src[k] = inputs[k] + GUARD;
    }
    tti_fold(wanted, src, n, count, fold);
    for (size_t k = 0; k < n && in_place; k++) {
        memcpy(dst[k], src[k], count * size);
        src[k] = dst[k];
    }
    tti_fold_push(dst, n, src, n, count, fold);
    for (size_t k = 0; k < n; k++) {
        expect(outputs[k], offset, count * size, in_place ? "push in place" : "push", fold);
    }
}

static void push_lengths(const struct tti_fold *fold)
{
    for (size_t i = 0; i < LENGTHS; i++) {
        push_once(fold, 1 + i % SOURCES, 8 * i % 64, lengths[i], false);
        push_once(fold, 1 + (i + 2) % SOURCES, 8 * i % 64, lengths[i], true);
    }
}

static void push_offsets(const struct tti_fold *fold)
{
    for (size_t offset = 0; offset < 64 && fold->op == TUTTI_SUM; offset++) {
        push_once(fold, 2, offset, 4200 + 24 * offset, offset % 2 == 1);
    }
}

static void test_push(void **unused)
{
    (void)unused;
    for_each_fold(push_lengths);
    for_each_fold(push_offsets);
}

/* More sources than the tiles have room for. */
static void test_many_sources(void **unused)
{
    (void)unused;
    enum { MANY = 300 };
    const struct tti_fold fold = {.dtype = TUTTI_U32, .op = TUTTI_SUM};
    const void *src[MANY];
    void *dst[2] = {outputs[0] + GUARD, outputs[1] + GUARD};
    fill(TUTTI_U32);
    for (size_t k = 0; k < MANY; k++) {
        src[k] = inputs[k % SOURCES] + 4 * (k % 16);
    }
    tti_fold(wanted, src, MANY, BYTES / 4, &fold);
    memset(outputs[0], 0xa5, sizeof(outputs[0]));
    memset(outputs[1], 0xa5, sizeof(outputs[1]));
    tti_fold_push(dst, 2, src, MANY, BYTES / 4, &fold);
    expect(outputs[0], 0, BYTES / 4 * 4, "push", &fold);
    expect(outputs[1], 0, BYTES / 4 * 4, "push", &fold);
    memset(outputs[0], 0xa5, sizeof(outputs[0]));
    tti_fold_stream(dst[0], src, MANY, BYTES / 4, &fold);
    expect(outputs[0], 0, BYTES / 4 * 4, "stream", &fold);
}

static void check_copy(void (*copy)(void *dst, const void *src, size_t n), const char *what)
{
    fill(TUTTI_U64);
    for (size_t offset = 0; offset < 64; offset++) {
        for (size_t i = 0; i < LENGTHS; i++) {
            const unsigned char *const from = inputs[0] + offset * 7 % 64;
            memset(outputs[0], 0xa5, sizeof(outputs[0]));
            memcpy(wanted, from, lengths[i]);
            copy(outputs[0] + GUARD + offset, from, lengths[i]);
            expect(outputs[0], offset, lengths[i], what, NULL);
        }
    }
}

static void test_copy_stream(void **unused)
{
    (void)unused;
    check_copy(tti_copy_stream, "copy_stream");
}

/* Also with the destination a few bytes ahead of the source within the page, where it is copied in chunks. */
static void test_copy_cached(void **unused)
{
    (void)unused;
    static _Alignas(4096) unsigned char pages[2 * 4096 * 5];
    unsigned char *const to = pages + sizeof(pages) / 2;
    check_copy(tti_copy_cached, "copy_cached");
    for (size_t ahead = 0; ahead < 70; ahead++) {
        for (size_t i = 0; i < LENGTHS; i++) {
            memset(pages, 0xa5, sizeof(pages));
            memcpy(pages, inputs[0], lengths[i]);
            memcpy(wanted, inputs[0], lengths[i]);
            tti_copy_cached(to + ahead, pages, lengths[i]);
            assert_memory_equal(to + ahead, wanted, lengths[i]);
            assert_int_equal(to[ahead + lengths[i]], 0xa5);
            assert_true(ahead == 0 || to[ahead - 1] == 0xa5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),      cmocka_unit_test(test_push),        cmocka_unit_test(test_many_sources),
        cmocka_unit_test(test_copy_stream), cmocka_unit_test(test_copy_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
