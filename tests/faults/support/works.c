/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of a round. Their data are small whole numbers, so that every sum is exact; elements at sixteen places
 * are set before and checked after; some of them lie in every rank's part.
 */
#include <pthread.h>
#include <stdlib.h>

#include "faults/support/round.h"

#define LARGE ((int64_t)1 << 20) /* elements of the largest tensor; all others fit in one of that size */
#define MARKS 16

static float private_in[LARGE];
static float private_out[LARGE];

tutti_status ground_open(struct ground *ground, tutti_group *group, const struct round *r, tutti_error *error)
{
    void *memory = NULL;
    *ground = (struct ground){.group = group, .round = r, .in = private_in, .out = private_out};
    if (r->work != WORK_HEAP) {
        return TUTTI_OK;
    }
    const tutti_status status = tutti_alloc(group, 2 * (size_t)LARGE * sizeof(float), &memory, error);
    if (status == TUTTI_OK) {
        ground->in = memory;
        ground->out = ground->in + LARGE;
    }
    return status;
}

static int64_t place_of_mark(int64_t count, int mark)
{
    return (count - 1) * mark / (MARKS - 1);
}

static void set(float *tensor, int64_t count, float value)
{
    for (int i = 0; i < MARKS; i++) {
        tensor[place_of_mark(count, i)] = value;
    }
}

static bool holds(const float *tensor, int64_t count, float value)
{
    for (int i = 0; i < MARKS; i++) {
        if (tensor[place_of_mark(count, i)] != value) {
            return false;
        }
    }
    return true;
}

/* ---- one operation ----------------------------------------------------------------------------------------------- */

/* The operation of one step. */
struct iteration {
    const struct ground *ground;
    int32_t step;
    int32_t rank;
    int32_t size;
    bool apart;
    tutti_error *error;
    tutti_status status;
    int32_t lane;       /* of an asynchronous call ... */
    int64_t count;      /* ... and its elements ... */
    int64_t from;       /* ... and where they begin */
    tutti_work *handle; /* its result */
};

/* Of what the ranks give: step + rank. */
static float sum_of(const struct iteration *t)
{
    const int32_t sum = t->size * t->step + t->size * (t->size - 1) / 2;
    return (float)sum;
}

static tutti_status right(tutti_status status, bool is_right)
{
    return status == TUTTI_OK && !is_right ? TUTTI_INTERNAL : status;
}

static tutti_status all_reduce(struct iteration *t, int64_t count, const tutti_call *call)
{
    const struct ground *g = t->ground;
    DLTensor source = tutti_tensor_1d(g->in, &count, TUTTI_F32);
    DLTensor result = tutti_tensor_1d(g->out, &count, TUTTI_F32);
    set(g->in, count, (float)(t->step + t->rank));
    set(g->out, count, -1);
    const tutti_status status = tutti_all_reduce(g->group, &source, &result, TUTTI_SUM, call);
    return right(status, holds(g->out, count, sum_of(t)));
}

static tutti_status broadcast(struct iteration *t, const tutti_call *call)
{
    const struct ground *g = t->ground;
    const int64_t count = t->step % 2 ? 3 : LARGE / 4;
    DLTensor tensor = tutti_tensor_1d(g->out, &count, TUTTI_F32);
    set(g->out, count, t->rank == 0 ? (float)t->step : -1);
    const tutti_status status = tutti_broadcast(g->group, &tensor, 0, call);
    return right(status, holds(g->out, count, (float)t->step));
}

/* The root changes, and so does the size. */
static tutti_status rooted(struct iteration *t, const tutti_call *call)
{
    const struct ground *g = t->ground;
    const int32_t root = t->step % t->size;
    const bool is_root = t->rank == root;
    const int64_t count = t->step / 3 % 2 ? 5 : 50000;
    const int64_t all = count * t->size;
    tutti_status status;
    set(g->out, all, -1);
    if (t->step % 3 == 0) {
        DLTensor source = tutti_tensor_1d(g->in, &count, TUTTI_F32);
        DLTensor result = tutti_tensor_1d(g->out, &count, TUTTI_F32);
        set(g->in, count, (float)(t->step + t->rank));
        status = tutti_reduce(g->group, &source, is_root ? &result : NULL, TUTTI_SUM, root, call);
        return right(status, !is_root || holds(g->out, count, sum_of(t)));
    }
    if (t->step % 3 == 1) {
        DLTensor source = tutti_tensor_1d(g->in, &count, TUTTI_F32);
        DLTensor result = tutti_tensor_1d(g->out, &all, TUTTI_F32);
        set(g->in, count, (float)(t->step + t->rank));
        status = tutti_gather(g->group, &source, is_root ? &result : NULL, 0, root, call);
        bool well = true;
        for (int32_t r = 0; is_root && r < t->size; r++) {
            well = well && holds(g->out + r * count, count, (float)(t->step + r));
        }
        return right(status, well);
    }
    DLTensor source = tutti_tensor_1d(g->in, &all, TUTTI_F32);
    DLTensor result = tutti_tensor_1d(g->out, &count, TUTTI_F32);
    for (int32_t r = 0; r < t->size; r++) {
        set(g->in + r * count, count, (float)(t->step + r));
    }
    status = tutti_scatter(g->group, is_root ? &source : NULL, &result, 0, root, call);
    return right(status, holds(g->out, count, (float)(t->step + t->rank)));
}

static tutti_status parts(struct iteration *t, const tutti_call *call)
{
    const struct ground *g = t->ground;
    const int64_t count = t->step / 3 % 2 ? 4 : 50000;
    const int64_t all = count * t->size;
    const DLTensor part = tutti_tensor_1d(g->in, &count, TUTTI_F32);
    const DLTensor whole = tutti_tensor_1d(g->in, &all, TUTTI_F32);
    DLTensor part_out = tutti_tensor_1d(g->out, &count, TUTTI_F32);
    DLTensor whole_out = tutti_tensor_1d(g->out, &all, TUTTI_F32);
    for (int32_t r = 0; r < t->size; r++) { /* what each gets from this rank */
        set(g->in + r * count, count, (float)(t->step + (t->step % 3 == 0 ? t->rank : t->size * t->rank + r)));
    }
    set(g->out, all, -1);
    tutti_status status;
    bool well = true;
    if (t->step % 3 == 1) {
        status = tutti_reduce_scatter(g->group, &whole, &part_out, TUTTI_SUM, 0, call);
        const int32_t sum = t->size * (t->step + t->rank) + t->size * t->size * (t->size - 1) / 2;
        return right(status, holds(g->out, count, (float)sum));
    }
    status = t->step % 3 == 0 ? tutti_all_gather(g->group, &part, &whole_out, 0, call)
                              : tutti_all_to_all(g->group, &whole, &whole_out, 0, call);
    for (int32_t r = 0; r < t->size; r++) {
        const int32_t sent = t->step % 3 == 0 ? r : t->size * r + t->rank;
        well = well && holds(g->out + r * count, count, (float)(t->step + sent));
    }
    return right(status, well);
}

/* At least one of several calls returns the cause. Calls that had not begun may return REVOKED. */
static bool is_more_precise(tutti_status status, tutti_status before)
{
    return status != TUTTI_OK && (before == TUTTI_OK || (before == TUTTI_REVOKED && status != TUTTI_REVOKED));
}

/* The first error of several works that names a cause. All of them have ended afterwards. */
static tutti_status await_works(tutti_work **works, int count, tutti_error *error)
{
    tutti_status first = TUTTI_OK;
    for (int i = 0; i < count; i++) {
        const tutti_status status = works[i] ? tutti_work_wait(works[i], TUTTI_FOREVER) : TUTTI_OK;
        if (is_more_precise(status, first)) {
            tutti_work_error(works[i], error);
            first = status;
        }
        tutti_work_release(works[i]);
    }
    return first;
}

/* Each rank sends to the next and receives from the one before. */
static tutti_status messages(struct iteration *t, const tutti_call *call)
{
    const struct ground *g = t->ground;
    const int32_t to = (t->rank + 1) % t->size;
    const int32_t from = (t->rank + t->size - 1) % t->size;
    const int64_t count = t->step % 2 ? 5 : 30000;
    const DLTensor sent = tutti_tensor_1d(g->in, &count, TUTTI_F32);
    DLTensor got = tutti_tensor_1d(g->out, &count, TUTTI_F32);
    set(g->in, count, (float)(t->step * t->size + t->rank));
    set(g->out, count, -1);
    tutti_status status;
    if (t->step % 3 == 0) {
        tutti_work *works[2] = {NULL, NULL};
        status = tutti_recv_async(g->group, &got, from, t->step, call, NULL, &works[0]);
        status = status == TUTTI_OK ? tutti_send_async(g->group, &sent, to, t->step, call, &works[1]) : status;
        tutti_error late;
        const tutti_status end = await_works(works, 2, &late);
        if (is_more_precise(end, status)) {
            *t->error = late;
            status = end;
        }
    } else {
        status = tutti_sendrecv(g->group, &sent, to, t->step, &got, from, t->step, call, NULL);
    }
    return right(status, holds(g->out, count, (float)(t->step * t->size + from)));
}

static void run_on_thread(struct iteration *t, void *(*function)(void *iteration))
{
    pthread_t thread;
    if (!t->apart) {
        function(t);
    } else if (pthread_create(&thread, NULL, function, t) != 0 || pthread_join(thread, NULL) != 0) {
        abort();
    }
}

static void *start_async(void *argument)
{
    struct iteration *t = argument;
    const struct ground *g = t->ground;
    float *in = g->in + t->from;
    float *out = g->out + t->from;
    const DLTensor source = tutti_tensor_1d(in, &t->count, TUTTI_F32);
    DLTensor result = tutti_tensor_1d(out, &t->count, TUTTI_F32);
    set(in, t->count, (float)(t->step + t->rank));
    set(out, t->count, -1);
    t->status = tutti_all_reduce_async(g->group, &source, &result, TUTTI_SUM,
                                       TUTTI_CALL(.timeout_ms = g->round->call_ms, .lane = t->lane, .error = t->error),
                                       &t->handle);
    return NULL;
}

/* One work on lane 0, or one on each of three lanes. The thread that starts them may have ended before the wait. */
static tutti_status asynchronous(struct iteration *t, int lanes)
{
    static const int64_t counts[] = {LARGE / 2, 20, 4000};
    static const int64_t froms[] = {LARGE / 2, 0, 1000};
    tutti_work *works[3] = {NULL, NULL, NULL};
    bool well = true;
    for (int i = 0; i < lanes && t->status == TUTTI_OK; i++) {
        t->lane = i;
        t->count = lanes > 1 ? counts[i] : t->step % 2 ? 4 : 100000;
        t->from = lanes > 1 ? froms[i] : 0;
        t->handle = NULL;
        run_on_thread(t, start_async);
        works[i] = t->handle;
    }
    tutti_error late;
    const tutti_status end = await_works(works, lanes, &late);
    if (is_more_precise(end, t->status)) {
        *t->error = late;
        t->status = end;
    }
    for (int i = 0; i < lanes; i++) {
        const int64_t count = lanes > 1 ? counts[i] : t->count;
        well = well && holds(t->ground->out + (lanes > 1 ? froms[i] : 0), count, sum_of(t));
    }
    return right(t->status, well);
}

/* A list of two in one start and wait, or in one run; the thread that makes it may have ended before. */
static tutti_status persistent(struct iteration *t)
{
    const struct ground *g = t->ground;
    const int64_t count = t->step / 2 % 2 ? 100000 : 2;
    DLTensor source = tutti_tensor_1d(g->in, &count, TUTTI_F32);
    DLTensor result = tutti_tensor_1d(g->out, &count, TUTTI_F32);
    const tutti_persistent_op list[] = {
        {.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &source, .output = &result},
        {.kind = TUTTI_OP_BARRIER}};
    tutti_persistent *p = NULL;
    tutti_error error;
    set(g->in, count, (float)(t->step + t->rank));
    set(g->out, count, -1);
    tutti_status status =
        tutti_persistent_init(g->group, list, 2, TUTTI_CALL(.timeout_ms = g->round->call_ms, .error = t->error), &p);
    if (status != TUTTI_OK) {
        return status;
    }
    if (t->step % 2 == 0) {
        status = tutti_persistent_run(p, t->error);
    } else if ((status = tutti_persistent_start(p, t->error)) == TUTTI_OK) {
        status = tutti_persistent_wait(p, TUTTI_FOREVER, t->error);
    }
    const bool released = tutti_persistent_release(p, &error) == TUTTI_OK;
    return right(status, released && holds(g->out, count, sum_of(t)));
}

static tutti_status group(struct iteration *t)
{
    const struct ground *g = t->ground;
    tutti_error error;
    struct ground inner = *g;
    tutti_status status =
        tutti_group_split(g->group, 0, t->rank, TUTTI_CONFIG(.timeout_ms = g->round->call_ms), &inner.group, t->error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct iteration inside = *t;
    inside.ground = &inner;
    status =
        all_reduce(&inside, t->step % 2 ? 2 : 40000, TUTTI_CALL(.timeout_ms = g->round->call_ms, .error = t->error));
    const tutti_status end = tutti_group_destroy(inner.group, &error);
    return status == TUTTI_OK && end != TUTTI_OK ? TUTTI_INTERNAL : status;
}

static void *run_synchronous(void *argument)
{
    struct iteration *t = argument;
    const struct round *r = t->ground->round;
    const tutti_call *call = TUTTI_CALL(.timeout_ms = r->call_ms, .error = t->error);
    switch (r->work) {
    case WORK_SMALL:
        t->status = all_reduce(t, 2, call);
        break;
    case WORK_LARGE_REDUCE:
    case WORK_HEAP:
        t->status = all_reduce(t, LARGE, call);
        break;
    case WORK_BROADCAST:
        t->status = broadcast(t, call);
        break;
    case WORK_ROOTED:
        t->status = rooted(t, call);
        break;
    case WORK_PARTS:
        t->status = parts(t, call);
        break;
    case WORK_MESSAGES:
        t->status = messages(t, call);
        break;
    case WORK_PERSISTENT:
        t->status = persistent(t);
        break;
    case WORK_GROUPS:
        t->status = group(t);
        break;
    default:
        t->status = tutti_barrier(t->ground->group, call);
    }
    return NULL;
}

tutti_status operate(const struct ground *ground, int32_t step, bool apart, tutti_error *error)
{
    struct iteration t = {.ground = ground,
                          .step = step,
                          .rank = tutti_group_rank(ground->group),
                          .size = tutti_group_size(ground->group),
                          .apart = apart,
                          .error = error};
    const enum work work = ground->round->work;
    if (work == WORK_ASYNC || work == WORK_LANES) {
        return asynchronous(&t, work == WORK_LANES ? 3 : 1);
    }
    run_on_thread(&t, run_synchronous);
    return t.status;
}
