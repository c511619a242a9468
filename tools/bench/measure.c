/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One row. An iteration writes new inputs, waits for all ranks, calls, reads the clock, and checks what has come. Its
 * time lasts until the slowest rank is done, because that is what a program waits for.
 *
 * On one host all ranks read the same clock, so they agree on a moment and start together, awake. A barrier alone will
 * not do: a rank that slept in it comes out tens of microseconds after the others, and the part of a broadcast or
 * scatter that they have done by then is in nobody's time. Elsewhere there are two barriers, because out of the second
 * one most ranks come awake, and each rank's time begins when it has left it.
 *
 * Small calls are timed 20 at once, each with buffers and data of its own.
 */
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "check/check.h"

#define WARM_UP     2
#define FIRST       5                  /* iterations before the ranks ask whether there is time for more */
#define BUDGET_NS   INT64_C(200000000) /* for a row, everything included */
#define CHECK_WHOLE ((size_t)1 << 20)  /* larger results are checked by the slice */
#define SLICES      16

struct row {
    struct tti_bench *b;
    int64_t count; /* elements of the tensor or of one part */
    int64_t whole; /* elements of all parts */
    int batch;
    struct tti_bench_tensors tensors[TTI_BENCH_BATCH];
};

static bool has(const struct tti_bench *b, unsigned trait)
{
    return (b->collective->traits & trait) != 0;
}

int64_t tti_bench_capacity(const struct tti_bench_options *options, int ranks)
{
    const int64_t parts = (int64_t)tutti_dtype_size(options->dtype) * ranks;
    const int64_t batch = (int64_t)TTI_BENCH_BATCH * TTI_BENCH_SMALL;
    const int64_t rows = options->most > parts ? options->most : parts;
    return rows > batch ? rows : batch;
}

static int parts_of(const struct tti_bench *b)
{
    return has(b, TTI_BENCH_WHOLE_INPUT | TTI_BENCH_WHOLE_OUTPUT) ? b->size : 1;
}

int64_t tti_bench_count(const struct tti_bench *b, int64_t bytes)
{
    if (has(b, TTI_BENCH_EMPTY)) {
        return 0;
    }
    const int64_t count = bytes / ((int64_t)b->item * parts_of(b));
    return count > 0 ? count : 1;
}

tutti_status tti_bench_agree(struct tti_bench *b, int64_t *values, int64_t count, tutti_reduce_op op)
{
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I64);
    return tutti_all_reduce(b->group, &t, &t, op, TUTTI_CALL(.error = &b->error));
}

/* Where the tensors of one call of the batch lie. In place, the part is the rank's own part of the whole. */
static void place(struct row *row, int slot, bool in_place)
{
    const struct tti_bench *b = row->b;
    struct tti_bench_tensors *t = &row->tensors[slot];
    const bool whole_in = has(b, TTI_BENCH_WHOLE_INPUT);
    const bool whole_out = has(b, TTI_BENCH_WHOLE_OUTPUT);
    const size_t stride = ((size_t)row->whole * b->item + 63) / 64 * 64;
    unsigned char *out = b->right + (size_t)slot * stride;
    unsigned char *in = in_place || has(b, TTI_BENCH_ONE_TENSOR) ? out : b->left + (size_t)slot * stride;
    const size_t own_part = in_place && whole_in != whole_out ? (size_t)b->rank * (size_t)row->count * b->item : 0;
    in += whole_in ? 0 : own_part;
    out += whole_out ? 0 : own_part;
    t->input = tutti_tensor_1d(in, whole_in ? &row->whole : &row->count, b->options->dtype);
    t->output = tutti_tensor_1d(out, whole_out ? &row->whole : &row->count, b->options->dtype);
    const bool root = b->rank == b->options->root;
    t->in = root || !has(b, TTI_BENCH_ROOT_INPUT) ? &t->input : NULL;
    t->out = root || !has(b, TTI_BENCH_ROOT_OUTPUT) ? &t->output : NULL;
}

static void fill(const struct row *row)
{
    const struct tti_bench *b = row->b;
    for (int slot = 0; slot < row->batch; slot++) {
        const DLTensor *in = row->tensors[slot].in;
        if (in) {
            tti_bench_fill(b->data, in->data, b->rank, b->number + (uint64_t)slot, 0, (size_t)in->shape[0]);
        }
    }
}

/* Whose data segment number `segment` of the output has to be. */
static int source_of(const struct tti_bench *b, int segment)
{
    if (has(b, TTI_BENCH_REDUCES)) {
        return TTI_BENCH_FOLD;
    }
    if (has(b, TTI_BENCH_ROOT_INPUT)) {
        return b->options->root;
    }
    return has(b, TTI_BENCH_NEIGHBOUR) ? (b->rank + b->size - 1) % b->size : segment;
}

/* Compares the elements [from, to) of an output. */
static int64_t count_wrong(const struct row *row, int slot, size_t from, size_t to)
{
    const struct tti_bench *b = row->b;
    const DLTensor *out = row->tensors[slot].out;
    const size_t length = (size_t)row->count;
    const size_t first = has(b, TTI_BENCH_WHOLE_INPUT) ? (size_t)b->rank * length : 0;
    int64_t wrong = 0;
    while (from < to) {
        const size_t segment = from / length;
        const size_t end = (segment + 1) * length < to ? (segment + 1) * length : to;
        wrong += tti_bench_wrong(b->data, (const unsigned char *)out->data + from * b->item, source_of(b, (int)segment),
                                 b->number + (uint64_t)slot, first + from % length, end - from);
        from = end;
    }
    return wrong;
}

/* The whole of each output, or of large ones a slice: another one in each iteration. */
static int64_t check(const struct row *row, int iteration, bool warming_up)
{
    int64_t wrong = 0;
    for (int slot = 0; slot < row->batch; slot++) {
        const DLTensor *out = row->tensors[slot].out;
        const size_t total = out ? (size_t)out->shape[0] : 0;
        const bool all = warming_up || total * row->b->item <= CHECK_WHOLE;
        const size_t slice = (size_t)iteration % SLICES;
        const size_t from = all ? 0 : total / SLICES * slice;
        const size_t to = all || slice == SLICES - 1 ? total : from + total / SLICES;
        wrong += count_wrong(row, slot, from, to);
    }
    return wrong;
}

/* Waits until all ranks are there; *start becomes the moment from which this rank's time counts. */
static tutti_status meet(struct tti_bench *b, int64_t *start)
{
    if (b->lead_ns > 0) {
        *start = tti_now_ns() + b->lead_ns;
        const tutti_status status = tti_bench_agree(b, start, 1, TUTTI_MAX);
        while (status == TUTTI_OK && tti_now_ns() < *start) {
            if (b->shares_cpu) {
                sched_yield();
            }
        }
        return status;
    }
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        status = tutti_barrier(b->group, TUTTI_CALL(.error = &b->error));
    }
    *start = tti_now_ns();
    return status;
}

static tutti_status iterate(struct row *row, int64_t *elapsed_ns)
{
    struct tti_bench *b = row->b;
    const double scale = b->options->op == TUTTI_PREMUL_SUM ? tti_check_scale(b->rank, b->options->dtype) : 0;
    const tutti_call *call = TUTTI_CALL(.scale = scale, .error = &b->error);
    int64_t start = 0;
    fill(row);
    tutti_status status = meet(b, &start);
    for (int slot = 0; slot < row->batch && status == TUTTI_OK; slot++) {
        status = b->collective->call(b, &row->tensors[slot], call);
    }
    *elapsed_ns = tti_now_ns() - start;
    return status;
}

/* How many iterations there shall be after `done`, agreed upon by the ranks; `done` = no more. */
static tutti_status plan(struct tti_bench *b, int done, int64_t elapsed_ns, int *wanted)
{
    *wanted = done;
    if (b->options->iterations > 0 || done >= TTI_BENCH_ITERATIONS) {
        return TUTTI_OK;
    }
    const tutti_status status = tti_bench_agree(b, &elapsed_ns, 1, TUTTI_MAX);
    if (status == TUTTI_OK && elapsed_ns < BUDGET_NS) {
        /* no more than as many again: what was seen so far may not be typical */
        const int64_t room = (BUDGET_NS - elapsed_ns) / (elapsed_ns / done + 1) + 1;
        const int64_t most = done < TTI_BENCH_ITERATIONS - done ? done : TTI_BENCH_ITERATIONS - done;
        *wanted = done + (int)(room < most ? room : most);
    }
    return status;
}

static tutti_status iterate_all(struct row *row, int *iterations, int64_t *wrong)
{
    struct tti_bench *b = row->b;
    tutti_status status = TUTTI_OK;
    const int64_t start = tti_now_ns();
    int wanted = b->options->iterations > 0 ? b->options->iterations : FIRST;
    *iterations = 0;
    for (int i = -WARM_UP; i < wanted && status == TUTTI_OK;) {
        int64_t ignored;
        status = iterate(row, i < 0 ? &ignored : &b->samples[i]);
        if (status == TUTTI_OK) {
            *wrong += check(row, i < 0 ? 0 : i, i < 0);
            b->number += (uint64_t)row->batch;
            i++;
        }
        if (status == TUTTI_OK && i == wanted) {
            *iterations = i;
            status = plan(b, i, tti_now_ns() - start, &wanted);
        }
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The least sample that at least so many percent do not exceed. */
static double percentile_us(const int64_t *sorted, int count, int percent, int batch)
{
    const int rank = (int)(((int64_t)count * percent + 99) / 100);
    return (double)sorted[rank > 0 ? rank - 1 : 0] / batch / 1000;
}

tutti_status tti_bench_measure(struct tti_bench *b, int64_t count, bool in_place, struct tti_bench_result *result)
{
    struct row row = {.b = b, .count = count, .whole = count * parts_of(b)};
    const int64_t bytes = row.whole * (int64_t)b->item;
    row.batch = bytes < TTI_BENCH_SMALL ? TTI_BENCH_BATCH : 1;
    for (int slot = 0; slot < row.batch; slot++) {
        place(&row, slot, in_place);
    }
    int iterations = 0;
    int64_t wrong = 0;
    tutti_status status = iterate_all(&row, &iterations, &wrong);
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, b->samples, iterations, TUTTI_MAX);
    }
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, &wrong, 1, TUTTI_SUM);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    qsort(b->samples, (size_t)iterations, sizeof(*b->samples), compare);
    *result = (struct tti_bench_result){.measured = true,
                                        .in_place = in_place,
                                        .bytes = bytes,
                                        .count = count,
                                        .iterations = iterations,
                                        .batch = row.batch,
                                        .wrong = wrong};
    result->p50_us = percentile_us(b->samples, iterations, 50, row.batch);
    result->p99_us = percentile_us(b->samples, iterations, 99, row.batch);
    result->min_us = percentile_us(b->samples, iterations, 0, row.batch);
    result->max_us = percentile_us(b->samples, iterations, 100, row.batch);
    result->alg_bw = result->p50_us > 0 ? (double)bytes / result->p50_us / 1000 : 0;
    result->bus_bw = result->alg_bw * tti_bench_bus_factor(b->collective->bus, b->size);
    return TUTTI_OK;
}
