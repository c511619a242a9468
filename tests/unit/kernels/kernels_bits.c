/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same bits on every CPU: a hash over the results of every dtype x reduce op x number of sources on fixed
 * pseudo-random input equals the constant below, for each instruction set that runs here and through the dispatcher.
 * Without cmocka, so that it also runs on emulated CPUs (tests/qemu/run.sh). Prints the set in use.
 */
#include <inttypes.h>
#include <stdio.h>

#include "kernels_inputs.h"

#define EXPECTED UINT64_C(0x36d17464f6062a2f)

enum { SOURCES = 9, COUNT = 1300 };

static uint64_t inputs[SOURCES][COUNT];
static uint64_t output[COUNT];

/* FNV-1a over 64-bit words. */
static uint64_t hash_words(uint64_t hash, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* All folds; table NULL means through tti_fold. */
static uint64_t hash_all(const struct tti_fold_table *table)
{
    static const size_t numbers[] = {1, 2, 3, 4, 5, 9};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    uint64_t state = 42;
    for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        const size_t size = tutti_dtype_size(dtype);
        const void *src[SOURCES];
        double scales[SOURCES];
        for (size_t k = 0; k < SOURCES; k++) {
            src[k] = inputs[k];
            scales[k] = random_scale(dtype, &state);
            for (size_t i = 0; i < COUNT; i++) {
                store_element(inputs[k], i, size, random_element(dtype, &state));
            }
        }
        for (tutti_reduce_op op = 1; op < TUTTI_REDUCE_OP_COUNT; op++) {
            if (!tutti_reduce_op_valid(op, dtype)) {
                continue;
            }
            for (size_t v = 0; v < sizeof(numbers) / sizeof(numbers[0]); v++) {
                const size_t count = COUNT - 3 * v;
                memset(output, 0, sizeof(output));
                if (table) {
                    table->ops[dtype][op](output, src, numbers[v], count, scales);
                } else {
                    const struct tti_fold fold = {.dtype = dtype, .op = op, .scales = scales};
                    tti_fold(output, src, numbers[v], count, &fold);
                }
                hash = hash_words(hash, output, COUNT);
            }
        }
    }
    return hash;
}

int main(void)
{
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    int wrong = 0;
    printf("isa %s\n", tti_kernels_isa());
    for (size_t i = 0; i <= count; i++) {
        const uint64_t hash = hash_all(i < count ? tables[i] : NULL);
        const char *name = i < count ? tables[i]->isa : "dispatched";
        printf("%-10s 0x%016" PRIx64 "%s\n", name, hash, hash == EXPECTED ? "" : " (wrong)");
        wrong += hash != EXPECTED;
    }
    return wrong ? 1 : 0;
}
