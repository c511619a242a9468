/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One row. An iteration writes new inputs, waits for all ranks, calls, reads the clock, and checks the outputs. Small
 * calls are timed 20 at once, each with buffers and data of its own.
 *
 * The asynchronous form is compared with the synchronous one, so the two alternate: a disturbance of the machine
 * affects both. The time of its start is taken in iterations of a third kind, where the clock is read around one call:
 * readings around every call would be a large part of the time of small ones.
 *
 * A peer (beside.h) alternates with Tutti in the same way, and the order changes from iteration to iteration. Before
 * the common start each rank runs a barrier of the library that comes next, so that its code and lines are as warm as
 * after a call of its own.
 */
#include "bench/measure/measure.h"

#include "base/clock.h"
#include "base/error.h"
#include "bench/beside/beside.h"
#include "bench/beside/ratio.h"
#include "bench/measure/agree.h"
#include "bench/measure/buffers.h"
#include "bench/measure/data.h"
#include "bench/measure/patterns.h"
#include "bench/measure/turns.h"
#include "bench/roofline/roofline.h"
#include "check/plan.h"

#define WARM_UP       2
#define FIRST         5 /* iterations before the ranks ask whether there is time for more ... */
#define FIRST_LONG    3 /* ... of a row whose warming up took LONG_NS */
#define LONG_NS       INT64_C(2000000000)
#define BUDGET_NS     INT64_C(200000000) /* for a row and each kind of iteration, everything included */
#define SLOW_NS       INT64_C(2000000) /* a peer's call that takes so long is timed alone; such a barrier is left out */
#define TOO_SLOW_NS   INT64_C(1000000000) /* with a budget: then a row has one iteration, larger ones no peer */
#define WAIT_LEAST_NS INT64_C(500000)     /* for the ranks whose call has not ended ... */
#define WAIT_MOST_NS  INT64_C(20000000)   /* ... as long as one's own took, but at most */
#define CHECK_WHOLE   ((size_t)1 << 20)   /* larger results are checked by the slice */
#define SLICES        16

/* One of the alternating measurements. */
struct side {
    struct tti_bench *b; /* Tutti's, or the peer's */
    int batch;
    int64_t wrong;
    struct tti_bench_tensors tensors[TTI_BENCH_BATCH];
};

struct row {
    struct tti_bench *b;
    bool in_place;
    int64_t count;                              /* elements of the tensor or of one part */
    int64_t whole;                              /* elements of all parts */
    enum tti_bench_form forms[TTI_BENCH_FORMS]; /* kinds of iterations, which alternate */
    int form_count;
    int64_t barrier_ns;           /* the shortest of the peer's barriers so far */
    const char *algorithm;        /* of Tutti's last call; NULL = unknown */
    tutti_persistent *persistent; /* Tutti's calls of an iteration; NULL = ordinary ones */
    struct side own;
    struct side peer;
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
    const int64_t unit = b->collective->pattern == TTI_BENCH_WINDOW ? TTI_BENCH_MESSAGES : 1;
    const int64_t count = bytes / ((int64_t)b->item * parts_of(b) * unit);
    return (count > 0 ? count : 1) * unit;
}

/* Where the tensors of one call of the batch lie. In place, the part is the rank's own part of the whole; a peer's
 * reduce_scatter has it at the start. */
static void place(const struct row *row, struct side *side, int slot)
{
    const struct tti_bench *b = side->b;
    struct tti_bench_tensors *t = &side->tensors[slot];
    const bool whole_in = has(b, TTI_BENCH_WHOLE_INPUT);
    const bool whole_out = has(b, TTI_BENCH_WHOLE_OUTPUT);
    const bool at_start = side == &row->peer && !row->b->beside->is_tutti && has(b, TTI_BENCH_REDUCES);
    const size_t stride = ((size_t)row->whole * b->item + 63) / 64 * 64;
    unsigned char *out = b->right + (size_t)slot * stride;
    unsigned char *in = row->in_place || has(b, TTI_BENCH_ONE_TENSOR) ? out : b->left + (size_t)slot * stride;
    const size_t own_part =
        row->in_place && whole_in != whole_out && !at_start ? (size_t)b->rank * (size_t)row->count * b->item : 0;
    in += whole_in ? 0 : own_part;
    out += whole_out ? 0 : own_part;
    t->input = tutti_tensor_1d(in, whole_in ? &row->whole : &row->count, b->options->dtype);
    t->output = tutti_tensor_1d(out, whole_out ? &row->whole : &row->count, b->options->dtype);
    t->input.device = tutti_group_device(b->group);
    t->output.device = t->input.device;
    const bool root = b->rank == b->options->root;
    t->operation = (struct tti_check_operation){
        .kind = b->collective->call,
        .op = b->options->op,
        .root = b->options->root,
        .input = root || !has(b, TTI_BENCH_ROOT_INPUT) ? &t->input : NULL,
        .output = root || !has(b, TTI_BENCH_ROOT_OUTPUT) ? &t->output : NULL,
        .destination = (b->rank + 1) % b->size,
        .source = (b->rank + b->size - 1) % b->size,
    };
}

static bool fill(const struct side *side)
{
    struct tti_bench *b = side->b;
    bool good = true;
    for (int slot = 0; slot < side->batch && good; slot++) {
        const DLTensor *in = side->tensors[slot].operation.input;
        if (in) {
            const size_t count = (size_t)in->shape[0];
            void *room = tti_bench_write_begin(b, in->data);
            tti_bench_data_fill(b->data, room, b->rank, b->number + (uint64_t)slot, 0, count);
            good = tti_bench_write_end(b, in->data, count * b->item);
        }
    }
    return good;
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
    return has(b, TTI_BENCH_NEIGHBOUR) ? tti_bench_source(b) : segment;
}

/* Compares the elements [from, to) of an output, and adds the number of wrong ones. */
static bool count_wrong(const struct row *row, struct side *side, int slot, size_t from, size_t to)
{
    struct tti_bench *b = side->b;
    const DLTensor *out = side->tensors[slot].operation.output;
    const size_t length = (size_t)row->count;
    const size_t first = has(b, TTI_BENCH_WHOLE_INPUT) ? (size_t)b->rank * length : 0;
    while (from < to) {
        const size_t segment = from / length;
        const size_t end = (segment + 1) * length < to ? (segment + 1) * length : to;
        const void *got = tti_bench_read(b, (const unsigned char *)out->data + from * b->item, (end - from) * b->item);
        if (!got) {
            return false;
        }
        side->wrong += tti_bench_data_count_wrong(b->data, got, source_of(b, (int)segment), b->number + (uint64_t)slot,
                                                  first + from % length, end - from);
        from = end;
    }
    return true;
}

/* The whole of each output, or of large ones a slice: another one in each iteration. */
static bool check(const struct row *row, struct side *side, int iteration, bool warming_up)
{
    bool good = true;
    for (int slot = 0; slot < side->batch && good; slot++) {
        const DLTensor *out = tti_bench_source(side->b) < 0 ? NULL : side->tensors[slot].operation.output;
        const size_t total = out ? (size_t)out->shape[0] : 0;
        const bool all = warming_up || total * side->b->item <= CHECK_WHOLE;
        const size_t slice = (size_t)iteration % SLICES;
        const size_t from = all ? 0 : total / SLICES * slice;
        const size_t to = all || slice == SLICES - 1 ? total : from + total / SLICES;
        good = count_wrong(row, side, slot, from, to);
    }
    return good;
}

/* A barrier of the library whose form it is, and how long the peer's took. */
static bool own_barrier(struct row *row, enum tti_bench_form form)
{
    struct tti_bench *b = row->b;
    if (form != TTI_BENCH_PEER) {
        return tutti_barrier(b->group, TUTTI_CALL(.error = &b->error)) == TUTTI_OK;
    }
    const int64_t start = tti_now_ns();
    const tutti_status status = tti_beside_barrier(b->beside, &b->error);
    const int64_t took = tti_now_ns() - start;
    row->barrier_ns = took < row->barrier_ns ? took : row->barrier_ns;
    return status == TUTTI_OK;
}

/* Before a call: its library runs a barrier, unless that takes too long. */
static bool warm(struct row *row, enum tti_bench_form form)
{
    return (form == TTI_BENCH_PEER && row->b->beside->slow_barrier) || own_barrier(row, form);
}

static tutti_status call_once(struct row *row, enum tti_bench_form form, struct tti_bench_tensors *t,
                              const tutti_call *call, int64_t *submit_ns)
{
    switch (form) {
    case TTI_BENCH_SYNC:
        return tti_bench_call(row->b, t, call);
    case TTI_BENCH_PEER:
        return tti_beside_call(row->b->beside, t, row->count, row->in_place, call);
    default:
        return tti_bench_call_async(row->b, t, call, submit_ns);
    }
}

static tutti_call options_of(const struct row *row, enum tti_bench_form form)
{
    struct tti_bench *b = row->b;
    const double scale = b->options->op == TUTTI_PREMUL_SUM ? tti_check_scale(b->rank, b->options->dtype) : 0;
    const tutti_wire wire = form == TTI_BENCH_PEER ? TUTTI_WIRE_FULL : b->options->wire;
    return (tutti_call){.size = sizeof(tutti_call), .scale = scale, .wire = wire, .error = &b->error};
}

static bool make_persistent(struct row *row)
{
    tutti_persistent_op list[TTI_BENCH_BATCH];
    for (int slot = 0; slot < row->own.batch; slot++) {
        list[slot] = tti_check_persistent_op(&row->own.tensors[slot].operation);
    }
    const tutti_call call = options_of(row, TTI_BENCH_SYNC);
    return tutti_persistent_init(row->b->group, list, (size_t)row->own.batch, &call, &row->persistent) == TUTTI_OK;
}

/* For ranks whose call of MPI has not ended; not for ever, since they may need the next call of this one. */
static int64_t most_wait_ns(int64_t took_ns)
{
    return took_ns < WAIT_LEAST_NS ? WAIT_LEAST_NS : took_ns < WAIT_MOST_NS ? took_ns : WAIT_MOST_NS;
}

/* One call after the other, or the list. `iteration` chooses the one whose start is timed. */
static bool iterate(struct row *row, enum tti_bench_form form, int iteration, int64_t *sample_ns)
{
    struct tti_bench *b = row->b;
    struct side *side = form == TTI_BENCH_PEER ? &row->peer : &row->own;
    const tutti_call call = options_of(row, form);
    const bool is_list = form == TTI_BENCH_SYNC && row->persistent;
    const int timed = form == TTI_BENCH_SUBMIT ? iteration % side->batch : -1;
    int64_t submit_ns = 0;
    int64_t start = 0;
    tutti_status status = TUTTI_OK;
    if (!fill(side) || (b->beside && !warm(row, form)) ||
        !tti_bench_barrier(b, &start, form == TTI_BENCH_PEER && b->options->peer_sleeps)) {
        return false;
    }
    if (is_list) {
        status = tutti_persistent_run(row->persistent, &b->error);
    }
    for (int slot = 0; !is_list && slot < side->batch && status == TUTTI_OK; slot++) {
        status = call_once(row, form, &side->tensors[slot], &call, slot == timed ? &submit_ns : NULL);
    }
    const int64_t end = tti_now_ns();
    *sample_ns = form == TTI_BENCH_SUBMIT ? submit_ns : end - start;
    if (b->beside && !has(b, TTI_BENCH_NEIGHBOUR)) {
        tti_bench_meet(b, end + most_wait_ns(end - start));
    }
    /* A rank of MPICH may return from messages with some that it still has to push: its next call of MPI does that. In
     * a barrier of Tutti it would let the other rank wait for ever. Tutti runs a barrier there, too: while the peer
     * alone had one, Tutti's calls with 4 ranks on 2 CPUs took 1.17 times as long. */
    if (status == TUTTI_OK && b->beside && has(b, TTI_BENCH_NEIGHBOUR) && !own_barrier(row, form)) {
        return false;
    }
    if (form != TTI_BENCH_PEER && !has(b, TTI_BENCH_NEIGHBOUR)) { /* no collective */
        row->algorithm = tutti_group_algorithm(b->group, 0);
    }
    return status == TUTTI_OK;
}

/* An iteration of each kind; iteration -1 = warming up, whose last samples end in `trial`. */
static bool iterate_forms(struct row *row, int iteration, int64_t trial[TTI_BENCH_FORMS])
{
    struct tti_bench *b = row->b;
    const bool warming_up = iteration < 0;
    const int number = warming_up ? 0 : iteration;
    const bool backward = b->beside && number % 2 == 1;
    for (int i = 0; i < row->form_count; i++) {
        const enum tti_bench_form form = row->forms[backward ? row->form_count - 1 - i : i];
        struct side *side = form == TTI_BENCH_PEER ? &row->peer : &row->own;
        int64_t *sample = warming_up ? &trial[form] : &tti_bench_samples(b, (int)form)[iteration];
        if (!iterate(row, form, number, sample) || !check(row, side, number, warming_up)) {
            return false;
        }
        side->b->number += (uint64_t)side->batch;
    }
    return true;
}

static int64_t budget_ns(const struct tti_bench *b)
{
    return b->options->budget_ns > 0 ? b->options->budget_ns : BUDGET_NS;
}

/* A warm-up that takes longer makes a row long. */
static int64_t long_ns(const struct row *row)
{
    return row->b->options->budget_ns > 0 ? budget_ns(row->b) * row->form_count / 2 : LONG_NS;
}

/* After the warm-up: a slow peer gets fewer calls, so that no row takes minutes. */
static bool settle(struct row *row, const int64_t trial[TTI_BENCH_FORMS], int64_t elapsed_ns, int *wanted)
{
    struct tti_bench *b = row->b;
    if (row->forms[row->form_count - 1] != TTI_BENCH_PEER) {
        return true;
    }
    int64_t seen[] = {trial[TTI_BENCH_PEER], row->barrier_ns, elapsed_ns};
    const bool good = tti_bench_agree(b, seen, 3, TUTTI_MAX);
    row->peer.batch = seen[0] > SLOW_NS ? 1 : row->own.batch;
    b->beside->slow_barrier = seen[1] > SLOW_NS;
    if (b->options->iterations == 0 && seen[2] > long_ns(row)) {
        *wanted = FIRST_LONG;
    }
    if (b->options->iterations == 0 && b->options->budget_ns > 0 && seen[0] > TOO_SLOW_NS) {
        b->beside->too_slow = true;
        *wanted = 1;
    }
    return good;
}

/* How many iterations there shall be after `done`, agreed upon by the ranks; `done` = no more. */
static bool plan(struct tti_bench *b, int done, int64_t elapsed_ns, int64_t budget_ns, int *wanted)
{
    *wanted = done;
    if (b->options->iterations > 0 || done >= TTI_BENCH_ITERATIONS) {
        return true;
    }
    const bool good = tti_bench_agree(b, &elapsed_ns, 1, TUTTI_MAX);
    if (good && elapsed_ns < budget_ns) {
        /* at most as many again: the times so far may not be typical */
        const int64_t room = (budget_ns - elapsed_ns) / (elapsed_ns / done + 1) + 1;
        const int64_t most = done < TTI_BENCH_ITERATIONS - done ? done : TTI_BENCH_ITERATIONS - done;
        *wanted = done + (int)(room < most ? room : most);
    }
    return good;
}

static bool iterate_all(struct row *row, int *iterations)
{
    struct tti_bench *b = row->b;
    bool good = true;
    int64_t trial[TTI_BENCH_FORMS] = {0};
    int64_t start = tti_now_ns();
    int wanted = b->options->iterations > 0 ? b->options->iterations : FIRST;
    *iterations = 0;
    for (int i = -WARM_UP; i < wanted && good;) {
        good = iterate_forms(row, i++, trial);
        if (good && i == 1 - WARM_UP && b->options->budget_ns > 0) {
            int64_t elapsed_ns = tti_now_ns() - start;
            good = tti_bench_agree(b, &elapsed_ns, 1, TUTTI_MAX);
            i = elapsed_ns > long_ns(row) ? 0 : i; /* one warm-up is enough where caches do not hold the data */
        }
        if (good && i == 0) {
            good = settle(row, trial, tti_now_ns() - start, &wanted);
        }
        if (good && i == wanted) {
            *iterations = i;
            good = plan(b, i, tti_now_ns() - start, budget_ns(b) * row->form_count, &wanted);
        }
    }
    return good;
}

static void bandwidths(const struct tti_bench *b, int64_t bytes, double p50_us, double *alg_bw, double *bus_bw)
{
    *alg_bw = p50_us > 0 ? (double)bytes / p50_us / 1000 : 0;
    *bus_bw = *alg_bw * tti_bench_bus_factor(b->collective->bus, b->size);
}

/* Both sides of the row, and how they compare. */
static bool conclude_beside(struct row *row, struct tti_bench_result *result)
{
    struct tti_bench *b = row->b;
    struct tti_bench_versus *versus = &result->versus;
    const int n = result->iterations;
    if (!tti_bench_slowest(b, TTI_BENCH_SYNC, n) || !tti_bench_slowest(b, TTI_BENCH_PEER, n) ||
        !tti_bench_agree(b, &row->peer.wrong, 1, TUTTI_SUM)) {
        return false;
    }
    *versus = (struct tti_bench_versus){.measured = true, .batch = row->peer.batch, .wrong = row->peer.wrong};
    if (b->rank == 0 && !tti_bench_ratio_of(tti_bench_samples(b, TTI_BENCH_SYNC), row->own.batch,
                                            tti_bench_samples(b, TTI_BENCH_PEER), row->peer.batch, n, &versus->ratio)) {
        tti_error_set(&b->error, TUTTI_NO_MEMORY, "no memory to compare %d samples", n);
        return false;
    }
    tti_bench_sum_up(b, TTI_BENCH_SYNC, n, row->own.batch, &result->time);
    tti_bench_sum_up(b, TTI_BENCH_PEER, n, row->peer.batch, &versus->time);
    bandwidths(b, result->bytes, versus->time.p50_us, &versus->alg_bw, &versus->bus_bw);
    return true;
}

static bool conclude_async(struct row *row, struct tti_bench_result *result)
{
    struct tti_bench *b = row->b;
    const int n = result->iterations;
    return tti_bench_times_of(b, TTI_BENCH_SYNC, n, row->own.batch, &result->sync) &&
           tti_bench_times_of(b, TTI_BENCH_ASYNC, n, row->own.batch, &result->time) &&
           tti_bench_times_of(b, TTI_BENCH_SUBMIT, n, 1, &result->submit);
}

/* All times of the row. */
static bool conclude(struct row *row, struct tti_bench_result *result)
{
    switch (row->forms[row->form_count - 1]) {
    case TTI_BENCH_PEER:
        return conclude_beside(row, result);
    case TTI_BENCH_SUBMIT:
        return conclude_async(row, result);
    default:
        return tti_bench_times_of(row->b, TTI_BENCH_SYNC, result->iterations, row->own.batch, &result->time);
    }
}

static void choose_forms(struct row *row)
{
    const struct tti_bench *b = row->b;
    row->forms[row->form_count++] = TTI_BENCH_SYNC;
    if (b->options->async) {
        row->forms[row->form_count++] = TTI_BENCH_ASYNC;
        row->forms[row->form_count++] = TTI_BENCH_SUBMIT;
    } else if (b->beside && !b->beside->too_slow && tti_beside_supports(b->beside, row->count, row->in_place)) {
        row->forms[row->form_count++] = TTI_BENCH_PEER;
    }
}

/* The iterations, and the hop before and after them. */
static bool run_row(struct row *row, struct tti_bench_result *result)
{
    struct tti_bench *b = row->b;
    if (b->roofline && (!tti_roofline_bound(b, result->bytes, result->in_place, &result->bound_us) ||
                        !tti_roofline_hop(b, &result->hop_ns[0]))) {
        return false;
    }
    return iterate_all(row, &result->iterations) && (!b->roofline || tti_roofline_hop(b, &result->hop_ns[1])) &&
           tti_bench_agree(b, &row->own.wrong, 1, TUTTI_SUM) && conclude(row, result);
}

bool tti_bench_measure(struct tti_bench *b, int64_t count, bool in_place, struct tti_bench_result *result)
{
    struct row row = {.b = b, .in_place = in_place, .count = count, .whole = count * parts_of(b), .own.b = b};
    const int64_t bytes = row.whole * (int64_t)b->item;
    row.barrier_ns = INT64_MAX;
    row.own.batch = bytes < TTI_BENCH_SMALL && b->collective->pattern != TTI_BENCH_GROUP ? TTI_BENCH_BATCH : 1;
    row.peer.b = b->beside ? &b->beside->view : b;
    row.peer.batch = 1; /* until it is known how long its calls take */
    if (b->beside) {
        b->beside->slow_barrier = false; /* likewise */
    }
    choose_forms(&row);
    for (int slot = 0; slot < row.own.batch; slot++) {
        place(&row, &row.own, slot);
        if (b->beside) {
            place(&row, &row.peer, slot);
        }
    }
    *result = (struct tti_bench_result){.in_place = in_place, .bytes = bytes, .count = count, .batch = row.own.batch};
    const bool good = (!b->options->persistent || make_persistent(&row)) && run_row(&row, result);
    if (row.persistent) {
        tutti_persistent_release(row.persistent, NULL);
    }
    if (!good) {
        return false;
    }
    result->measured = true;
    result->wrong = row.own.wrong;
    result->algorithm = row.algorithm;
    bandwidths(b, bytes, result->time.p50_us, &result->alg_bw, &result->bus_bw);
    tti_roofline_raise_bound(b, result);
    return true;
}
