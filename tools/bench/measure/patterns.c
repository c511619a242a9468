/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The patterns of messages and of group making, as programs use them and as the OSU benchmarks measure them: ping-pong,
 * a window of messages each way, and a sub-group that lives for one all_reduce. peer.h says what each consists of; a
 * peer's plug-in file implements the same ones.
 *
 * The asynchronous form is that of a program without work in between: start, wait, release the handle. The difference
 * to the synchronous form is the cost of being able to overlap. A program that overlaps pays the start only: it cannot
 * compute before the function has returned.
 */
#include "bench/measure/patterns.h"

#include "base/clock.h"
#include "base/error.h"

#define CLOCK_READINGS 1000

int tti_bench_source(const struct tti_bench *b)
{
    switch (b->collective->pattern) {
    case TTI_BENCH_PING_PONG:
    case TTI_BENCH_WINDOW:
        return (b->rank ^ 1) < b->size ? b->rank ^ 1 : -1;
    default:
        return (b->rank + b->size - 1) % b->size;
    }
}

static tutti_status ping_pong(const struct tti_bench *b, struct tti_bench_tensors *t, int partner,
                              const tutti_call *call)
{
    const bool first = b->rank % 2 == 0;
    tutti_status status = TUTTI_OK;
    for (int step = 0; step < 2 && status == TUTTI_OK; step++) {
        status = (step == 0) == first ? tutti_send(b->group, &t->input, partner, 0, call)
                                      : tutti_recv(b->group, &t->output, partner, 0, call, NULL);
    }
    return status;
}

static tutti_status window(const struct tti_bench *b, struct tti_bench_tensors *t, int partner, const tutti_call *call)
{
    const int64_t count = t->input.shape[0] / TTI_BENCH_MESSAGES;
    const size_t part = (size_t)count * b->item;
    DLTensor messages[2 * TTI_BENCH_MESSAGES];
    tutti_status status = tutti_batch_begin(b->group, call->error);
    for (int i = 0; i < 2 * TTI_BENCH_MESSAGES && status == TUTTI_OK; i++) {
        const bool receives = i < TTI_BENCH_MESSAGES;
        const size_t offset = (size_t)(i % TTI_BENCH_MESSAGES) * part;
        messages[i] = receives ? t->output : t->input;
        messages[i].data = (unsigned char *)messages[i].data + offset;
        messages[i].shape = (int64_t *)&count;
        status = receives ? tutti_recv(b->group, &messages[i], partner, 0, call, NULL)
                          : tutti_send(b->group, &messages[i], partner, 0, call);
    }
    return status == TUTTI_OK ? tutti_batch_end(b->group, call) : status;
}

static tutti_status group(const struct tti_bench *b, const tutti_call *call)
{
    tutti_group *sub = NULL;
    tutti_status status = tutti_group_split(b->group, 0, b->rank, NULL, &sub, call->error);
    if (status == TUTTI_OK) {
        double value = 1;
        const int64_t one = 1;
        DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_F64);
        status = tutti_all_reduce(sub, &t, &t, TUTTI_SUM, call);
        if (status == TUTTI_OK && value != b->size) {
            status = tti_error_set(call->error, TUTTI_INTERNAL, "the ranks of the new group have the sum %g, not %d",
                                   value, b->size);
        }
        tutti_group_destroy(sub, NULL);
    }
    return status;
}

tutti_status tti_bench_call(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call)
{
    if (b->collective->pattern == TTI_BENCH_ONE_CALL) {
        return tti_check_call(b->group, &t->operation, call, NULL); /* first: what comes before counts in small times */
    }
    if (b->collective->pattern == TTI_BENCH_GROUP) {
        return group(b, call);
    }
    const int partner = tti_bench_source(b);
    if (partner < 0) {
        return TUTTI_OK;
    }
    return b->collective->pattern == TTI_BENCH_WINDOW ? window(b, t, partner, call) : ping_pong(b, t, partner, call);
}

tutti_status tti_bench_call_async(struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  int64_t *submit_ns)
{
    tutti_work *work = NULL;
    const int64_t before = submit_ns ? tti_now_ns() : 0;
    tutti_status status = tti_check_call(b->group, &t->operation, call, &work);
    if (submit_ns) {
        *submit_ns = tti_now_ns() - before;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = tutti_work_wait(work, TUTTI_FOREVER);
    if (status != TUTTI_OK) {
        tutti_work_error(work, &b->error);
    }
    tutti_work_release(work);
    return status;
}

int64_t tti_bench_clock_ns(void)
{
    const int64_t start = tti_now_ns();
    int64_t end = start;
    for (int i = 0; i < CLOCK_READINGS; i++) {
        end = tti_now_ns();
    }
    return (end - start) / CLOCK_READINGS;
}
