/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast a fold is, against memcpy. Both are run in turn, fold, copy, fold, copy, so that a neighbour or a change of
 * the clock meets both, and the medians are compared. What a fold should give comes from the conformance suite's
 * reference, which shares no code with the kernels.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/kernels/kernels.h"
#include "check/reference.h"

enum { SAMPLES = 21, SAMPLES_LEAST = 5 };

#define MEMORY    ((size_t)256 << 20) /* more than any cache: of all arrays together */
#define SAMPLE_NS 20000.0             /* of one sample, about: the clock is read twice */
#define CELL_NS   40000000.0          /* of a cell, about */

size_t tti_kernels_tables(const struct tti_fold_table *tables[TTI_KERNELS_TABLES])
{
    size_t count = 0;
#if defined(__x86_64__)
    if (strcmp(tti_kernels_isa(), "avx512") == 0) {
        tables[count++] = &tti_fold_table_avx512;
    }
    if (strcmp(tti_kernels_isa(), "base") != 0) {
        tables[count++] = &tti_fold_table_avx2;
    }
#endif
    tables[count++] = &tti_fold_table_base;
    return count;
}

/* What the C library says of a cache; within bounds, for on some virtual machines that is far from the truth. */
static size_t cache_bytes(int name, size_t least, size_t most)
{
    const long bytes = sysconf(name);
    return bytes < (long)least ? least : bytes > (long)most ? most : (size_t)bytes;
}

size_t tti_kernels_sizes(const struct tti_kernels_options *options, size_t sources, size_t sizes[TTI_KERNELS_SIZES])
{
    size_t count = 0;
    if (options->least > 0) {
        for (int64_t bytes = options->least; bytes <= options->most && count < TTI_KERNELS_SIZES; bytes *= 8) {
            sizes[count++] = (size_t)bytes;
        }
        return count;
    }
    const size_t all[] = {cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 16 << 10, 128 << 10) / 2,
                          cache_bytes(_SC_LEVEL2_CACHE_SIZE, 256 << 10, 2 << 20) / 2,
                          cache_bytes(_SC_LEVEL3_CACHE_SIZE, 4 << 20, 32 << 20) / 2, MEMORY};
    for (; count < sizeof(all) / sizeof(all[0]); count++) {
        sizes[count] = all[count] / (sources + 1) / 64 * 64;
    }
    return count;
}

/* From one array to the next: a few lines more than the array, so that they do not all begin at the same place in the
 * caches. */
static size_t stride_of(size_t bytes)
{
    return (bytes + 63) / 64 * 64 + 5 * (size_t)64;
}

size_t tti_kernels_room(size_t sources, size_t bytes)
{
    return (sources + 1) * stride_of(bytes);
}

static int compare(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static double median(int64_t *samples, int count)
{
    qsort(samples, (size_t)count, sizeof(*samples), compare);
    const int64_t middle = samples[count / 2];
    return (double)middle;
}

/* One row's fold and copy over the arrays. */
struct work {
    const struct tti_kernels_row *row;
    const void *src[TTI_KERNELS_SOURCES];
    double scales[TTI_KERNELS_SOURCES];
    unsigned char *dst;
    size_t count;
    unsigned char *copy_from; /* memcpy goes from one half of the arrays to the other */
    unsigned char *copy_to;
    size_t half;
};

static int64_t time_folds(const struct work *w, int64_t times)
{
    tti_fold_function *const fold = w->row->table->ops[w->row->dtype][w->row->op];
    const int64_t start = tti_now_ns();
    for (int64_t i = 0; i < times; i++) {
        fold(w->dst, w->src, w->row->sources, w->count, w->scales);
    }
    return tti_now_ns() - start;
}

static int64_t time_copies(const struct work *w, int64_t times)
{
    const int64_t start = tti_now_ns();
    for (int64_t i = 0; i < times; i++) {
        memcpy(w->copy_to, w->copy_from, w->half);
        /* Emits nothing, but keeps the compiler from leaving out a copy that the next one repeats. */
        __asm__ volatile("" : : "r"(w->copy_to) : "memory");
    }
    return tti_now_ns() - start;
}

static void compare_speeds(const struct work *w, size_t bytes, struct tti_kernels_cell *cell)
{
    int64_t folds[SAMPLES];
    int64_t copies[SAMPLES];
    (void)time_folds(w, 1);
    const double once = (double)(time_folds(w, 1) + 1);
    const int64_t times = once < SAMPLE_NS ? (int64_t)(SAMPLE_NS / once) : 1;
    int samples = 0;
    for (double spent = 0; samples < SAMPLES && (samples < SAMPLES_LEAST || spent < CELL_NS); samples++) {
        folds[samples] = time_folds(w, times);
        copies[samples] = time_copies(w, times);
        spent += (double)(folds[samples] + copies[samples]);
    }
    const double moved = (double)((w->row->sources + 1) * bytes) * (double)times;
    cell->fold_gb = moved / median(folds, samples);
    cell->copy_gb = 2 * (double)w->half * (double)times / median(copies, samples);
}

bool tti_kernels_measure(const struct tti_kernels_memory *memory, const struct tti_kernels_row *row, size_t bytes,
                         struct tti_kernels_cell *cell)
{
    const size_t item = tutti_dtype_size(row->dtype);
    const size_t stride = stride_of(bytes);
    struct work w = {.row = row, .count = bytes / item, .dst = memory->at + row->sources * stride};
    struct tti_bench_data *const data =
        tti_bench_data_create((int)row->sources, row->dtype, row->op, TUTTI_CAP_RANK_ORDER | TUTTI_CAP_ROUND_ONCE);
    if (!data) {
        return false;
    }
    for (size_t k = 0; k < row->sources; k++) {
        tti_bench_data_fill(data, memory->at + k * stride, (int)k, 0, 0, w.count);
        w.src[k] = memory->at + k * stride;
        w.scales[k] = tti_check_scale((int)k, row->dtype);
    }
    memset(w.dst, 0xa5, bytes);
    cell->bytes = w.count * item;
    (void)time_folds(&w, 1);
    cell->wrong = tti_bench_data_count_wrong(data, w.dst, TTI_BENCH_FOLD, 0, 0, w.count);
    tti_bench_data_destroy(data);
    /* The copy makes the data of some arrays that of others: values as good as any. */
    w.half = (row->sources + 1) * cell->bytes / 2;
    w.copy_from = memory->at;
    w.copy_to = memory->at + tti_kernels_room(row->sources, bytes) - w.half;
    compare_speeds(&w, cell->bytes, cell);
    return true;
}
