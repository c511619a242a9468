/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What waits for what: operations of one lane run in the order of their calls, those of different lanes and messages do
 * not wait for one another, a barrier waits for every rank.
 */
#include <stdlib.h>
#include <string.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/block_lane.h"
#include "check/operation/messages.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

/* ---- a chain: each operation takes what the one before has left ---- */

enum { LINKS = 24, BUFFERS = 2 };

/* What all ranks' buffers hold after the links so far: values[buffer][rank][element], computed without the library. */
struct model {
    int ranks;
    size_t count; /* elements of a buffer: `part` for every rank */
    size_t part;
    uint64_t *values;
};

static uint64_t *row(const struct model *m, int buffer, int rank)
{
    return m->values + ((size_t)buffer * (size_t)m->ranks + (size_t)rank) * m->count;
}

enum link_kind { SUM_IN_PLACE, SUM_ACROSS, EXCHANGE, SPREAD, CUT_AND_JOIN, LINK_KINDS };

/* Row by row: with many ranks a column's elements lie whole pages apart, and share one set of the cache. */
static void model_sum(struct model *m, int from, int to)
{
    const size_t bytes = m->count * sizeof(uint64_t);
    uint64_t *sum = row(m, to, 0);
    memmove(sum, row(m, from, 0), bytes);
    for (int r = 1; r < m->ranks; r++) {
        const uint64_t *addend = row(m, from, r);
        for (size_t i = 0; i < m->count; i++) {
            sum[i] += addend[i];
        }
    }
    for (int r = 1; r < m->ranks; r++) {
        memcpy(row(m, to, r), sum, bytes);
    }
}

static void model_exchange(struct model *m, int from, int to)
{
    for (int r = 0; r < m->ranks; r++) {
        for (int s = 0; s < m->ranks; s++) {
            memcpy(row(m, to, r) + (size_t)s * m->part, row(m, from, s) + (size_t)r * m->part,
                   m->part * sizeof(uint64_t));
        }
    }
}

static void model_spread(struct model *m, int buffer, int root)
{
    for (int r = 0; r < m->ranks; r++) {
        if (r != root) {
            memcpy(row(m, buffer, r), row(m, buffer, root), m->count * sizeof(uint64_t));
        }
    }
}

/* One rank's side of the chain. */
struct chain {
    struct tti_check *c;
    struct model model;
    struct tti_check_tensor buffers[BUFFERS];
    int64_t part_shape;
    struct tti_check_pending pendings[2 * LINKS];
    int started;
};

static void link_call(struct chain *x, const struct tti_check_operation *o)
{
    struct tti_check *c = x->c;
    struct tti_check_pending *f = &x->pendings[x->started];
    /* some are synchronous, and have to wait for those before them */
    tti_check_pending_init(c, f, tti_check_random_completion(c, 500 + (uint64_t)x->started, 1));
    tti_check_pending_start(c, f, o);
    x->started++;
}

static void add_link(struct chain *x, uint64_t draw, bool strided)
{
    struct model *m = &x->model;
    const int from = (int)(draw >> 8 & 1);
    const int to = 1 - from;
    const int root = (int)((draw >> 16) % (uint64_t)m->ranks);
    DLTensor *a = &x->buffers[from].t;
    DLTensor *b = &x->buffers[to].t;
    /* cutting in place needs a contiguous part */
    switch (draw % (strided ? CUT_AND_JOIN : LINK_KINDS)) {
    case SUM_IN_PLACE:
        link_call(
            x, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_REDUCE, .op = TUTTI_SUM, .input = a, .output = a});
        model_sum(m, from, from);
        break;
    case SUM_ACROSS:
        link_call(
            x, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_REDUCE, .op = TUTTI_SUM, .input = a, .output = b});
        model_sum(m, from, to);
        break;
    case EXCHANGE:
        link_call(x, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_TO_ALL, .input = a, .output = b});
        model_exchange(m, from, to);
        break;
    case SPREAD:
        link_call(x, &(struct tti_check_operation){.kind = TTI_CHECK_BROADCAST, .root = root, .output = a});
        model_spread(m, from, root);
        break;
    default: {
        DLTensor own = tti_check_tensor_view(&x->buffers[from], (size_t)x->c->rank * m->part, 1, &x->part_shape);
        link_call(x, &(struct tti_check_operation){
                         .kind = TTI_CHECK_REDUCE_SCATTER, .op = TUTTI_SUM, .input = a, .output = &own});
        link_call(x, &(struct tti_check_operation){.kind = TTI_CHECK_ALL_GATHER, .input = &own, .output = a});
        model_sum(m, from, from);
        break;
    }
    }
}

static void chain(struct tti_check *c, int64_t part, enum tti_check_layout layout)
{
    const int64_t count = part * c->size;
    struct chain *x = tti_check_memory(sizeof(*x));
    *x = (struct chain){.c = c, .part_shape = part};
    x->model = (struct model){.ranks = c->size, .count = (size_t)count, .part = (size_t)part};
    x->model.values = tti_check_memory(BUFFERS * (size_t)c->size * (size_t)count * sizeof(uint64_t));
    for (int b = 0; b < BUFFERS; b++) {
        tti_check_tensor_make(c, &x->buffers[b], TUTTI_U64, 1, &count, layout);
        tti_check_tensor_fill(c, &x->buffers[b], 0, (size_t)count, c->rank, TTI_CHECK_RAW, (uint64_t)b << 32);
        for (int r = 0; r < c->size; r++) {
            tti_check_generate(row(&x->model, b, r), TUTTI_U64, TTI_CHECK_RAW, tti_check_rank_key(c, r),
                               (uint64_t)b << 32, (size_t)count);
        }
    }
    for (int i = 0; i < LINKS; i++) {
        add_link(x, tti_check_mix(c->key, 1000 + (uint64_t)i), layout == TTI_CHECK_STRIDED);
    }
    for (int i = x->started - 1; i >= 0; i--) {
        tti_check_ok(c, "a link of the chain", tti_check_pending_finish(c, &x->pendings[i]));
    }
    for (int b = 0; b < BUFFERS; b++) {
        const unsigned char *result = tti_check_tensor_result(c, &x->buffers[b]);
        const bool same = memcmp(result, row(&x->model, b, c->rank), (size_t)count * sizeof(uint64_t)) == 0;
        tti_check_expect_i64(c, "the chain has left what its links compose to", same, 1);
        tti_check_tensor_free(&x->buffers[b]);
    }
    free(x->model.values);
    free(x);
}

static void compact_chain(struct tti_check *c, int64_t part)
{
    chain(c, part, TTI_CHECK_COMPACT);
}

static void strided_chain(struct tti_check *c, int64_t part)
{
    chain(c, part, TTI_CHECK_STRIDED);
}

/* ---- lanes, messages and barriers ---- */

static void run_on(struct tti_check *c, int lane, int64_t count, uint64_t salt)
{
    struct tti_check sub = tti_check_sub(c, c->group, salt);
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    sub.lane = lane;
    sub.completion = tti_check_random_completion(&sub, 0, 2);
    tti_check_run(&sub, &tti_check_all_reduce_form, &p);
    tti_check_merge(c, &sub);
}

/* While lane 0 is held, the others do their work; and messages pass, or the lane would stay blocked. */
static void independent(struct tti_check *c, int64_t count)
{
    struct tti_check_job held;
    tti_check_block_lane(c, &held, c->size - 1, count);
    for (int lane = 1; lane < TTI_CHECK_LANE_COUNT; lane++) {
        run_on(c, lane, count, (uint64_t)lane);
    }
    tti_check_unblock_lane(c, &held, c->size - 1);
    run_on(c, 0, count, 10);
    tti_check_blocked_end(c, &held);
}

/* No rank's barrier ends before the last rank has arrived. */
static void barrier_waits(struct tti_check *c, int holder)
{
    const int64_t none = 0;
    DLTensor nothing = tti_check_tensor_over(c, NULL, 1, &none, TUTTI_U8);
    struct tti_check_pending f;
    tti_check_pending_init(c, &f, tti_check_random_completion(c, (uint64_t)holder, 0));
    if (c->rank != holder) {
        int32_t ended = 7;
        tti_check_pending_start(c, &f, &(struct tti_check_operation){.kind = TTI_CHECK_BARRIER});
        tti_check_status(c, "a wait with a limit", tutti_work_wait(f.work, 1), TUTTI_BUSY);
        tti_check_ok(c, "work_test", tutti_work_test(f.work, &ended));
        tti_check_expect_i64(c, "the barrier has ended before every rank arrived", ended, 0);
        tti_check_ok(c, "send", tti_check_send(c, &nothing, holder, 7));
    } else {
        for (int r = 0; r < c->size; r++) {
            if (r != holder) {
                tti_check_ok(c, "recv", tti_check_recv(c, &nothing, r, 7, NULL));
            }
        }
        tti_check_pending_start(c, &f, &(struct tti_check_operation){.kind = TTI_CHECK_BARRIER});
    }
    tti_check_ok(c, "barrier", tti_check_pending_finish(c, &f));
}

static void barrier_waits_for_all(struct tti_check *c, int64_t ranks)
{
    for (int holder = 0; holder < ranks; holder++) {
        barrier_waits(c, holder);
    }
}

/* ---- messages in any order ---- */

struct exchange_message {
    struct tti_check_tensor tensor;
    struct tti_check_pending pending;
};

static void post(struct tti_check *c, struct exchange_message *m, int64_t count, int peer, int tag, int number,
                 bool send)
{
    if (send) {
        tti_check_outgoing(c, &m->tensor, TUTTI_I32, 1, &count, TTI_CHECK_COMPACT, number);
    } else {
        tti_check_tensor_make(c, &m->tensor, TUTTI_I32, 1, &count, TTI_CHECK_COMPACT);
    }
    tti_check_pending_init(c, &m->pending, tti_check_random_completion(c, 700 + (uint64_t)(2 * number + send), 0));
    tti_check_pending_start(c, &m->pending,
                            &(struct tti_check_operation){.kind = send ? TTI_CHECK_SEND : TTI_CHECK_RECV,
                                                          .input = &m->tensor.t,
                                                          .output = &m->tensor.t,
                                                          .destination = peer,
                                                          .source = peer,
                                                          .tag = tag});
}

static void collect(struct tti_check *c, struct exchange_message *m, int peer, int number, bool send)
{
    const bool ok = tti_check_ok(c, send ? "send" : "recv", tti_check_pending_wait(c, &m->pending));
    if (ok) {
        tti_check_pending_result(c, &m->pending, send ? NULL : &m->tensor.t);
    }
    tti_check_pending_release(c, &m->pending);
    if (send) {
        tti_check_tensor_unchanged(c, &m->tensor, "the message that was sent");
    } else if (ok) {
        tti_check_incoming(c, &m->tensor, m->tensor.count, peer, number);
    }
    tti_check_tensor_free(&m->tensor);
}

/* Every rank posts all its sends and all its receives before it waits for any, in an order of its own, and waits in
 * another one. Messages to one rank have one tag, so they must not overtake one another. */
static void post_all(struct tti_check *c, int64_t count)
{
    enum { EACH = 3 };
    const int n = EACH * (c->size - 1); /* message i goes to, and comes from, the rank at distance 1 + i / EACH */
    struct exchange_message *out = tti_check_memory((size_t)n * sizeof(*out));
    struct exchange_message *in = tti_check_memory((size_t)n * sizeof(*in));
    const bool receive_first = tti_check_mix(c->key, (uint64_t)c->rank) & 1;
    for (int pass = 0; pass < 2; pass++) {
        const bool send = (pass == 0) != receive_first;
        for (int i = 0; i < n; i++) {
            const int distance = 1 + i / EACH;
            const int peer = send ? (c->rank + distance) % c->size : (c->rank + c->size - distance) % c->size;
            post(c, send ? &out[i] : &in[i], count, peer, 8, i, send);
        }
    }
    for (int k = 0; k < 2 * n; k++) {
        const int i = (n - 1 - k / 2 + c->rank) % n;
        const int distance = 1 + i / EACH;
        const bool send = (k + c->rank) % 2 == 0;
        const int peer = send ? (c->rank + distance) % c->size : (c->rank + c->size - distance) % c->size;
        collect(c, send ? &out[i] : &in[i], peer, i, send);
    }
    free(out);
    free(in);
}

/* ---- many at once ---- */

static void many(struct tti_check *c, int64_t count)
{
    struct tti_check_job *jobs = tti_check_memory((size_t)count * sizeof(*jobs));
    for (int64_t i = 0; i < count; i++) {
        const struct tti_check_plan p = tti_check_plan_1d(TUTTI_I32, TUTTI_SUM, 1 + i % 9);
        tti_check_job_prepare(&jobs[i], c, &tti_check_all_reduce_form, &p, (uint64_t)i);
        jobs[i].check.lane = (int)(i % TTI_CHECK_LANE_COUNT);
    }
    for (int64_t i = 0; i < count; i++) {
        tti_check_job_start(&jobs[i], TTI_CHECK_WAIT);
    }
    for (int64_t i = 0; i < count; i++) {
        struct tti_check_job *job = &jobs[i % 2 == 0 ? i / 2 : count - 1 - i / 2];
        tti_check_job_finish(job, TUTTI_OK);
        tti_check_job_end(job, c);
    }
    free(jobs);
}

/* ---- */

void tti_check_async_order_cases(struct tti_check *c)
{
    static const int64_t parts[] = {1, 40, 3000, 40000};
    const bool several = c->size > 1;
    const bool posts = several && c->messages;
    for (size_t i = 0; i < (c->quick ? 3u : 4u); i++) {
        const long long part = parts[i];
        tti_check_case(c, true, compact_chain, part, "order/chain/%lld", part);
        if (part <= 3000) {
            tti_check_case(c, true, strided_chain, part, "order/chain/%lld/strided", part);
        }
        tti_check_case(c, several, independent, part, "lanes/independent/%lld", part);
        tti_check_case(c, posts, post_all, part, "messages/posted-at-once/%lld", part);
    }
    tti_check_case(c, several, barrier_waits_for_all, c->size, "barrier/waits-for-all");
    tti_check_case(c, true, many, c->quick ? 200 : 1500, "many");
}
