/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* Every dtype x reduce op x number of sources x count against the reference, on every instruction set of this CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels_inputs.h"
#include "kernels_reference.h"

enum { SOURCES = 17, COUNT = 1300, GUARD = 64, ROOM = COUNT * 8 + 2 * GUARD };

static const size_t numbers[] = {1, 2, 3, 4, 5, 8, 17};
static const size_t counts[] = {0, 1, 3, 7, 15, 16, 17, 25, 64, 257, 1000, COUNT};

static unsigned char inputs[SOURCES][ROOM];
static unsigned char output[ROOM];
static double scales[SOURCES];
static uint64_t state = 7;

static void fill(tutti_dtype dtype, size_t offset)
{
    for (size_t k = 0; k < SOURCES; k++) {
        scales[k] = random_scale(dtype, &state);
        for (size_t i = 0; i < COUNT; i++) {
            store_element(inputs[k] + offset, i, tutti_dtype_size(dtype), random_element(dtype, &state));
        }
    }
}

static uint64_t expected(tutti_dtype dtype, tutti_reduce_op op, size_t n, size_t offset, size_t i)
{
    uint64_t pattern[SOURCES];
    for (size_t k = 0; k < n; k++) {
        pattern[k] = load_element(inputs[k] + offset, i, tutti_dtype_size(dtype));
    }
    return reference_fold(dtype, op, pattern, n, scales);
}

static void check(const struct tti_fold_table *table, tutti_dtype dtype, tutti_reduce_op op, size_t n, size_t count,
                  size_t offset)
{
    const size_t size = tutti_dtype_size(dtype);
    const void *src[SOURCES];
    for (size_t k = 0; k < n; k++) {
        src[k] = inputs[k] + offset;
    }
    memset(output, 0xa5, sizeof(output));
    if (table) {
        if (count > 0) {
            table->ops[dtype][op](output + GUARD + offset, src, n, count, scales);
        }
    } else {
        tti_fold(output + GUARD + offset, src, n, count,
                 &(struct tti_fold){.dtype = dtype, .op = op, .scales = op == TUTTI_PREMUL_SUM ? scales : NULL});
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t wanted = expected(dtype, op, n, offset, i);
        const uint64_t got = load_element(output + GUARD + offset, i, size);
        if (wanted != got) {
            fail_msg("%s %s on %s, n %zu, count %zu, element %zu: wanted 0x%llx, got 0x%llx", tutti_dtype_name(dtype),
                     tutti_reduce_op_name(op), table ? table->isa : "dispatch", n, count, i, (unsigned long long)wanted,
                     (unsigned long long)got);
        }
    }
    for (size_t i = 0; i < sizeof(output); i++) {
        if ((i < GUARD + offset || i >= GUARD + offset + count * size) && output[i] != 0xa5) {
            fail_msg("%s %s, n %zu, count %zu: byte %zu outside the output was written", tutti_dtype_name(dtype),
                     tutti_reduce_op_name(op), n, count, i);
        }
    }
}

/* Calls f for every valid pair of dtype and reduce op. */
static void for_each_pair(void (*f)(tutti_dtype dtype, tutti_reduce_op op))
{
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
            if (tutti_reduce_op_valid(op, dtype)) {
                f(dtype, op);
            }
        }
    }
}

static void matrix_of(tutti_dtype dtype, tutti_reduce_op op)
{
    const struct tti_fold_table *tables[3];
    const size_t table_count = usable_tables(tables);
    fill(dtype, 0);
    for (size_t t = 0; t < table_count; t++) {
        for (size_t v = 0; v < sizeof(numbers) / sizeof(numbers[0]); v++) {
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                check(tables[t], dtype, op, numbers[v], counts[c], 0);
            }
        }
    }
}

static void test_matrix(void **unused)
{
    (void)unused;
    for_each_pair(matrix_of);
}

static void dispatch_of(tutti_dtype dtype, tutti_reduce_op op)
{
    fill(dtype, 0);
    check(NULL, dtype, op, 3, 0, 0);
    check(NULL, dtype, op, 3, 25, 0);
}

static void test_dispatch(void **unused)
{
    (void)unused;
    for_each_pair(dispatch_of);
}

/* Inline payloads may start at any address, so kernels require no alignment. */
static void unaligned_of(tutti_dtype dtype, tutti_reduce_op op)
{
    const struct tti_fold_table *tables[3];
    const size_t table_count = usable_tables(tables);
    for (size_t offset = 1; offset <= 4; offset += 3) {
        fill(dtype, offset);
        for (size_t t = 0; t < table_count; t++) {
            check(tables[t], dtype, op, 3, 67, offset);
            check(tables[t], dtype, op, 8, 67, offset);
        }
    }
}

static void test_unaligned(void **unused)
{
    (void)unused;
    for_each_pair(unaligned_of);
}

/* dst is one of the sources, or several of them. */
static void in_place_of(tutti_dtype dtype, tutti_reduce_op op)
{
    static const size_t some[] = {1, 2, 4, 5};
    static uint64_t wanted[COUNT];
    static unsigned char saved[SOURCES][ROOM];
    const size_t size = tutti_dtype_size(dtype);
    const struct tti_fold_table *tables[3];
    const size_t table_count = usable_tables(tables);
    fill(dtype, 0);
    memcpy(saved, inputs, sizeof(saved));
    for (size_t v = 0; v < sizeof(some) / sizeof(some[0]); v++) {
        for (size_t own = 0; own <= some[v]; own++) {
            const size_t n = some[v];
            const void *src[SOURCES];
            for (size_t k = 0; k < n; k++) {
                /* own == n: all sources and dst are the same memory */
                src[k] = own == n ? inputs[0] : inputs[k];
                if (own == n) {
                    memcpy(inputs[k], inputs[0], sizeof(inputs[0]));
                }
            }
            for (size_t i = 0; i < COUNT; i++) {
                wanted[i] = expected(dtype, op, n, 0, i);
            }
            for (size_t t = 0; t < table_count; t++) {
                unsigned char before[ROOM];
                unsigned char *dst = own == n ? inputs[0] : inputs[own];
                memcpy(before, dst, sizeof(before));
                tables[t]->ops[dtype][op](dst, src, n, COUNT, scales);
                for (size_t i = 0; i < COUNT; i++) {
                    if (wanted[i] != load_element(dst, i, size)) {
                        fail_msg("%s %s on %s, n %zu, in place of source %zu, element %zu", tutti_dtype_name(dtype),
                                 tutti_reduce_op_name(op), tables[t]->isa, n, own, i);
                    }
                }
                memcpy(dst, before, sizeof(before));
            }
            memcpy(inputs, saved, sizeof(saved));
        }
    }
}

static void test_in_place(void **unused)
{
    (void)unused;
    for_each_pair(in_place_of);
}

int main(void)
{
    reference_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_unaligned),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
