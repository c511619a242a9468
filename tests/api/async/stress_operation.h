/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation of the stress test with its data: any kind, started or run, waited for in any way, compared. All data
 * are sums and copies of 64-bit numbers that are a function of (key, rank, index).
 */
#ifndef TESTS_API_ASYNC_STRESS_OPERATION_H
#define TESTS_API_ASYNC_STRESS_OPERATION_H

#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "api/check.h"

enum { RANKS = 2, MOST = 20000 /* elements */ };

static inline uint64_t mix(uint64_t key, uint64_t counter)
{
    uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

enum kind {
    ALL_REDUCE,
    ALL_REDUCE_IN_PLACE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    BARRIER,
    REDUCE,
    BROADCAST,
    GATHER,
    SCATTER,
    MESSAGE,
    KINDS
};

struct operation {
    enum kind kind;
    int rank;
    int root;
    int tag;
    uint64_t key;  /* of the data */
    int64_t count; /* of a rank's part */
    int64_t shapes[2];
    uint64_t *input;
    uint64_t *output;
    tutti_work *work;
    tutti_status status; /* of the start, then of the end */
    tutti_error error;
    bool expects_call;
    _Atomic int calls; /* release by the callback, acquire by the thread that waits for it */
    tutti_status recorded;
    int number;
    bool cancellable;
};

static inline uint64_t element(uint64_t key, int rank, int64_t i)
{
    return mix(key, (uint64_t)i * RANKS + (uint64_t)rank);
}

static inline void recorded(tutti_status status, const tutti_error *error, void *user)
{
    struct operation *o = user;
    o->recorded = error ? status : TUTTI_INTERNAL;
    atomic_fetch_add_explicit(&o->calls, 1, memory_order_release);
}

static inline int64_t input_count(const struct operation *o)
{
    return o->kind == REDUCE_SCATTER || o->kind == ALL_TO_ALL || o->kind == SCATTER ? o->count * RANKS : o->count;
}

static inline int64_t output_count(const struct operation *o)
{
    return o->kind == ALL_GATHER || o->kind == ALL_TO_ALL || o->kind == GATHER ? o->count * RANKS : o->count;
}

static inline void fill(struct operation *o)
{
    /* the output begins with what no operation leaves there */
    memset(o->output, 0xee, (size_t)output_count(o) * sizeof(uint64_t));
    uint64_t *to = o->kind == BROADCAST || o->kind == ALL_REDUCE_IN_PLACE ? o->output : o->input;
    if (o->kind != BROADCAST || o->rank == o->root) {
        for (int64_t i = 0; i < input_count(o); i++) {
            to[i] = element(o->key, o->rank, i);
        }
    }
}

static inline struct operation *make_operations(int count)
{
    struct operation *all = calloc((size_t)count, sizeof(*all));
    for (int i = 0; all && i < count; i++) {
        all[i].input = calloc(MOST, sizeof(uint64_t));
        all[i].output = calloc(MOST, sizeof(uint64_t));
        if (!all[i].input || !all[i].output) {
            abort();
        }
    }
    return all;
}

static inline void free_operations(struct operation *all, int count)
{
    for (int i = 0; all && i < count; i++) {
        free(all[i].input);
        free(all[i].output);
    }
    free(all);
}

/* Sets what the call needs, and makes the data. */
static inline void prepare(struct operation *o, enum kind kind, int rank, int64_t count, uint64_t key, int number)
{
    o->kind = kind;
    o->rank = rank;
    o->key = key;
    o->number = number;
    o->root = (int)(key >> 8 & 1);
    o->tag = 0;
    o->count = count;
    o->shapes[0] = input_count(o);
    o->shapes[1] = output_count(o);
    o->cancellable = kind != MESSAGE;
    o->work = NULL;
    o->expects_call = false;
    o->status = TUTTI_OK;
    o->error.status = TUTTI_OK;
    atomic_store_explicit(&o->calls, 0, memory_order_relaxed);
    fill(o);
}

static inline tutti_status run(tutti_group *g, struct operation *o, const tutti_call *call)
{
    DLTensor in = tutti_tensor_1d(o->input, &o->shapes[0], TUTTI_U64);
    DLTensor out = tutti_tensor_1d(o->output, &o->shapes[1], TUTTI_U64);
    switch (o->kind) {
    case ALL_REDUCE:
        return tutti_all_reduce(g, &in, &out, TUTTI_SUM, call);
    case ALL_REDUCE_IN_PLACE:
        return tutti_all_reduce(g, &out, &out, TUTTI_SUM, call);
    case ALL_GATHER:
        return tutti_all_gather(g, &in, &out, 0, call);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(g, &in, &out, TUTTI_SUM, 0, call);
    case ALL_TO_ALL:
        return tutti_all_to_all(g, &in, &out, 0, call);
    case REDUCE:
        return tutti_reduce(g, &in, o->rank == o->root ? &out : NULL, TUTTI_SUM, o->root, call);
    case BROADCAST:
        return tutti_broadcast(g, &out, o->root, call);
    case GATHER:
        return tutti_gather(g, &in, o->rank == o->root ? &out : NULL, 0, o->root, call);
    case SCATTER:
        return tutti_scatter(g, o->rank == o->root ? &in : NULL, &out, 0, o->root, call);
    case MESSAGE:
        return tutti_sendrecv(g, &in, 1 - o->rank, o->tag, &out, 1 - o->rank, o->tag, call, NULL);
    default:
        return tutti_barrier(g, call);
    }
}

static inline tutti_status start(tutti_group *g, struct operation *o, const tutti_call *call)
{
    DLTensor in = tutti_tensor_1d(o->input, &o->shapes[0], TUTTI_U64);
    DLTensor out = tutti_tensor_1d(o->output, &o->shapes[1], TUTTI_U64);
    switch (o->kind) {
    case ALL_REDUCE:
        return tutti_all_reduce_async(g, &in, &out, TUTTI_SUM, call, &o->work);
    case ALL_REDUCE_IN_PLACE:
        return tutti_all_reduce_async(g, &out, &out, TUTTI_SUM, call, &o->work);
    case ALL_GATHER:
        return tutti_all_gather_async(g, &in, &out, 0, call, &o->work);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter_async(g, &in, &out, TUTTI_SUM, 0, call, &o->work);
    case ALL_TO_ALL:
        return tutti_all_to_all_async(g, &in, &out, 0, call, &o->work);
    case REDUCE:
        return tutti_reduce_async(g, &in, o->rank == o->root ? &out : NULL, TUTTI_SUM, o->root, call, &o->work);
    case BROADCAST:
        return tutti_broadcast_async(g, &out, o->root, call, &o->work);
    case GATHER:
        return tutti_gather_async(g, &in, o->rank == o->root ? &out : NULL, 0, o->root, call, &o->work);
    case SCATTER:
        return tutti_scatter_async(g, o->rank == o->root ? &in : NULL, &out, 0, o->root, call, &o->work);
    case MESSAGE:
        return tutti_sendrecv_async(g, &in, 1 - o->rank, o->tag, &out, 1 - o->rank, o->tag, call, NULL, &o->work);
    default:
        return tutti_barrier_async(g, call, &o->work);
    }
}

/* Element i of this rank's output, or whether there is none. */
static inline bool expected(const struct operation *o, int64_t i, uint64_t *value)
{
    const int64_t part = o->rank * o->count;
    switch (o->kind) {
    case ALL_REDUCE:
    case ALL_REDUCE_IN_PLACE:
    case REDUCE:
        *value = element(o->key, 0, i) + element(o->key, 1, i);
        return o->kind != REDUCE || o->rank == o->root;
    case REDUCE_SCATTER:
        *value = element(o->key, 0, part + i) + element(o->key, 1, part + i);
        return true;
    case ALL_GATHER:
    case GATHER:
        *value = element(o->key, (int)(i / o->count), i % o->count);
        return o->kind != GATHER || o->rank == o->root;
    case ALL_TO_ALL:
        *value = element(o->key, (int)(i / o->count), part + i % o->count);
        return true;
    case SCATTER:
        *value = element(o->key, o->root, part + i);
        return true;
    case BROADCAST:
        *value = element(o->key, o->root, i);
        return true;
    case MESSAGE:
        *value = element(o->key, 1 - o->rank, i);
        return true;
    default:
        return false;
    }
}

static _Atomic int complaints; /* relaxed: after a failed group not every error need be reported */

static inline void complain(const struct operation *o, const char *what, const char *details)
{
    enum { TOLD_AT_MOST = 20 };
    if (atomic_fetch_add_explicit(&complaints, 1, memory_order_relaxed) < TOLD_AT_MOST) {
        fprintf(stderr, "rank %d, kind %d, operation %d: %s%s\n", o->rank, (int)o->kind, o->number, what, details);
    }
}

static inline void compare(const struct operation *o)
{
    uint64_t value = 0;
    for (int64_t i = 0; i < output_count(o) && expected(o, i, &value); i++) {
        if (o->output[i] != value) {
            complain(o, "a wrong result", "");
            return;
        }
    }
}

/* ---- ends ---- */

static inline void wait_by_draw(struct operation *o, uint64_t draw)
{
    int32_t ended = 0;
    int fd = -1;
    switch (draw % 5) {
    case 0:
        while (tutti_work_test(o->work, &ended) == TUTTI_OK && !ended) {
            sched_yield();
        }
        break;
    case 1:
        while (tutti_work_wait(o->work, (int64_t)(draw >> 8) % 3) == TUTTI_BUSY) {
        }
        break;
    case 2:
        if (tutti_work_eventfd(o->work, &fd, NULL) == TUTTI_OK) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            EXPECT(poll(&p, 1, 1000 * LIMIT_S) == 1);
        }
        break;
    default:
        break;
    }
    o->status = tutti_work_wait(o->work, TUTTI_FOREVER);
    EXPECT_OK(tutti_work_error(o->work, &o->error));
    EXPECT_OK(tutti_work_release(o->work));
    EXPECT(tutti_work_release(o->work) == TUTTI_BAD_STATE);
    o->work = NULL;
}

/* Waits for the end, and for the callback if there is one. If the handle was released, only the callback is left to
 * wait for. */
static inline void end(struct operation *o, uint64_t draw)
{
    if (o->work) {
        wait_by_draw(o, draw);
    } else {
        /* the operation itself ends at its deadline, so the test does not hang without an error */
        while (o->expects_call && atomic_load_explicit(&o->calls, memory_order_acquire) == 0) {
            sched_yield();
        }
        o->status = o->expects_call ? o->recorded : o->status;
    }
    if (o->expects_call) {
        EXPECT(atomic_load_explicit(&o->calls, memory_order_acquire) == 1);
        EXPECT(o->recorded == o->status);
    }
    if (o->status == TUTTI_OK) {
        compare(o);
    } else if (o->status != TUTTI_CANCELLED || !o->cancellable) {
        complain(o, "an error: ", o->error.status == o->status ? o->error.message : tutti_status_name(o->status));
    }
}

static inline bool cancel(struct operation *o)
{
    tutti_error error;
    const tutti_status status = tutti_work_cancel(o->work, &error);
    if (status != TUTTI_OK && status != TUTTI_TOO_LATE) {
        complain(o, "work_cancel: ", error.message);
    }
    return status == TUTTI_OK;
}

#endif
