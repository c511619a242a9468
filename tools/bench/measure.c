/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One row. An iteration writes new inputs, waits for all ranks, calls, reads the clock, and checks what has come. Small
 * calls are timed 20 at once, each with buffers and data of its own.
 *
 * The asynchronous form is compared with the synchronous one, so both are measured in turn: what disturbs the machine
 * for a while disturbs both. How long its start takes is seen in iterations of a third kind, where the clock is read
 * around one call: readings in every call would be a good part of the time of small ones.
 */
#include "base/clock.h"
#include "bench/bench.h"
#include "check/check.h"

#define WARM_UP     2
#define FIRST       5                  /* iterations before the ranks ask whether there is time for more */
#define BUDGET_NS   INT64_C(200000000) /* for a row and each kind of iteration, everything included */
#define CHECK_WHOLE ((size_t)1 << 20)  /* larger results are checked by the slice */
#define SLICES      16

struct row {
    struct tti_bench *b;
    int64_t count; /* elements of the tensor or of one part */
    int64_t whole; /* elements of all parts */
    int forms;     /* kinds of iterations, in the order of enum tti_bench_form */
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

/* One call after the other. `iteration` chooses the one whose start is timed. */
static tutti_status iterate(struct row *row, enum tti_bench_form form, int iteration, int64_t *sample_ns)
{
    struct tti_bench *b = row->b;
    const double scale = b->options->op == TUTTI_PREMUL_SUM ? tti_check_scale(b->rank, b->options->dtype) : 0;
    const tutti_call *call = TUTTI_CALL(.scale = scale, .error = &b->error);
    const int timed = form == TTI_BENCH_SUBMIT ? iteration % row->batch : -1;
    int64_t submit_ns = 0;
    int64_t start = 0;
    fill(row);
    tutti_status status = tti_bench_meet(b, &start);
    for (int slot = 0; slot < row->batch && status == TUTTI_OK; slot++) {
        struct tti_bench_tensors *t = &row->tensors[slot];
        status = form == TTI_BENCH_SYNC ? b->collective->call(b, t, call)
                                        : tti_bench_call_async(b, t, call, slot == timed ? &submit_ns : NULL);
    }
    *sample_ns = form == TTI_BENCH_SUBMIT ? submit_ns : tti_now_ns() - start;
    return status;
}

/* An iteration of each kind; iteration -1 = warming up, without samples. */
static tutti_status iterate_forms(struct row *row, int iteration, int64_t *wrong)
{
    struct tti_bench *b = row->b;
    const bool warming_up = iteration < 0;
    const int number = warming_up ? 0 : iteration;
    tutti_status status = TUTTI_OK;
    for (int form = 0; form < row->forms && status == TUTTI_OK; form++) {
        int64_t ignored;
        int64_t *sample = warming_up ? &ignored : &tti_bench_samples(b, form)[iteration];
        status = iterate(row, (enum tti_bench_form)form, number, sample);
        if (status == TUTTI_OK) {
            *wrong += check(row, number, warming_up);
            b->number += (uint64_t)row->batch;
        }
    }
    return status;
}

/* How many iterations there shall be after `done`, agreed upon by the ranks; `done` = no more. */
static tutti_status plan(struct tti_bench *b, int done, int64_t elapsed_ns, int64_t budget_ns, int *wanted)
{
    *wanted = done;
    if (b->options->iterations > 0 || done >= TTI_BENCH_ITERATIONS) {
        return TUTTI_OK;
    }
    const tutti_status status = tti_bench_agree(b, &elapsed_ns, 1, TUTTI_MAX);
    if (status == TUTTI_OK && elapsed_ns < budget_ns) {
        /* no more than as many again: what was seen so far may not be typical */
        const int64_t room = (budget_ns - elapsed_ns) / (elapsed_ns / done + 1) + 1;
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
        status = iterate_forms(row, i, wrong);
        i += status == TUTTI_OK;
        if (status == TUTTI_OK && i == wanted) {
            *iterations = i;
            status = plan(b, i, tti_now_ns() - start, BUDGET_NS * row->forms, &wanted);
        }
    }
    return status;
}

/* All times of the row. */
static tutti_status conclude(const struct row *row, struct tti_bench_result *result)
{
    struct tti_bench *b = row->b;
    const int n = result->iterations;
    if (row->forms == 1) {
        return tti_bench_times_of(b, TTI_BENCH_SYNC, n, row->batch, &result->time);
    }
    tutti_status status = tti_bench_times_of(b, TTI_BENCH_SYNC, n, row->batch, &result->sync);
    if (status == TUTTI_OK) {
        status = tti_bench_times_of(b, TTI_BENCH_ASYNC, n, row->batch, &result->time);
    }
    if (status == TUTTI_OK) {
        status = tti_bench_times_of(b, TTI_BENCH_SUBMIT, n, 1, &result->submit);
    }
    return status;
}

tutti_status tti_bench_measure(struct tti_bench *b, int64_t count, bool in_place, struct tti_bench_result *result)
{
    struct row row = {.b = b, .count = count, .whole = count * parts_of(b)};
    const int64_t bytes = row.whole * (int64_t)b->item;
    row.forms = b->options->async ? TTI_BENCH_FORMS : 1;
    row.batch = bytes < TTI_BENCH_SMALL ? TTI_BENCH_BATCH : 1;
    for (int slot = 0; slot < row.batch; slot++) {
        place(&row, slot, in_place);
    }
    int iterations = 0;
    int64_t wrong = 0;
    tutti_status status = iterate_all(&row, &iterations, &wrong);
    if (status == TUTTI_OK) {
        status = tti_bench_agree(b, &wrong, 1, TUTTI_SUM);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    *result = (struct tti_bench_result){.measured = true,
                                        .in_place = in_place,
                                        .bytes = bytes,
                                        .count = count,
                                        .iterations = iterations,
                                        .batch = row.batch,
                                        .wrong = wrong};
    status = conclude(&row, result);
    result->alg_bw = result->time.p50_us > 0 ? (double)bytes / result->time.p50_us / 1000 : 0;
    result->bus_bw = result->alg_bw * tti_bench_bus_factor(b->collective->bus, b->size);
    return status;
}
