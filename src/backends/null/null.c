/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * null: every call succeeds at once and is recorded. all_reduce and reduce have the result of a group of one rank: the
 * input, times the factor of PREMUL_SUM. All other operations, also receives, leave the output as it is.
 */
#include "backends/null/null.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tensor/solo.h"

#define RECORDS 1024

struct null_state {
    pthread_mutex_t lock;
    int64_t count;
    tutti_null_record records[RECORDS];
};

static int32_t available(char *why, size_t capacity)
{
    snprintf(why, capacity, "%s", "always (communicates nothing)");
    return 1;
}

static tutti_status open_group(const tutti_open_info *info, void **state, tutti_error *error)
{
    (void)info;
    struct null_state *s = calloc(1, sizeof(*s));
    if (!s) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of backend null");
    }
    pthread_mutex_init(&s->lock, NULL);
    *state = s;
    return TUTTI_OK;
}

static void close_group(void *state)
{
    struct null_state *s = state;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const char *supports(void *state, const tutti_op *op)
{
    (void)state;
    (void)op;
    return "recorded";
}

static void record(struct null_state *s, tutti_op *op)
{
    pthread_mutex_lock(&s->lock);
    op->sequence = s->count + 1;
    s->records[s->count++ % RECORDS] = (tutti_null_record){.size = sizeof(tutti_null_record),
                                                           .operation = op->kind,
                                                           .dtype = op->dtype,
                                                           .reduce_op = op->redop,
                                                           .root = op->root,
                                                           .tag = op->p2p_tag,
                                                           .count = (int64_t)op->count};
    pthread_mutex_unlock(&s->lock);
}

static tutti_status run(void *state, tutti_op *op, tutti_error *error)
{
    if (op->failed != TUTTI_OK) {
        return tti_error_set(error, op->failed, "%s: %s", tutti_operation_name(op->kind),
                             tutti_status_string(op->failed));
    }
    record(state, op);
    const bool reduces = op->kind == TUTTI_OP_ALL_REDUCE || op->kind == TUTTI_OP_REDUCE;
    if (reduces && op->dst) { /* only the root of a reduce has an output */
        tti_run_solo(op);
    }
    return TUTTI_OK;
}

static tutti_status run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    (void)timeout_ms;
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->allocate) {
            return tti_error_set(error, TUTTI_UNSUPPORTED,
                                 "backend null receives no messages, so it cannot allocate a tensor for one");
        }
        record(state, ops[i]);
        ops[i]->status = TUTTI_OK;
    }
    return TUTTI_OK;
}

/* Messages end when they are posted, so a posting needs no state: any address will do. */
static tutti_status post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                             tutti_error *error)
{
    tutti_status status = run_p2p(state, ops, count, timeout_ms, error);
    if (status == TUTTI_OK) {
        *batch = state;
    }
    return status;
}

static int32_t test_p2p(void *state, void *batch)
{
    (void)state;
    (void)batch;
    return 1;
}

static void attend_p2p(void *state, void *batch, int64_t until_ns)
{
    (void)state;
    (void)batch;
    (void)until_ns;
}

static void wake_p2p(void *state)
{
    (void)state;
}

static int32_t cancel_p2p(void *state, void *batch)
{
    (void)state;
    (void)batch;
    return 0;
}

static tutti_status end_p2p(void *state, void *batch, tutti_error *error)
{
    (void)state;
    (void)batch;
    (void)error;
    return TUTTI_OK;
}

static tutti_status probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                          tutti_error *error)
{
    (void)state;
    (void)peer;
    (void)tag;
    (void)message;
    (void)error;
    *found = 0;
    return TUTTI_OK;
}

tutti_status tti_null_record_at(void *state, int64_t index, tutti_null_record *out)
{
    struct null_state *s = state;
    pthread_mutex_lock(&s->lock);
    bool known = index >= 0 && index < s->count && index >= s->count - RECORDS;
    if (known) {
        uint32_t size = out->size < sizeof(*out) ? out->size : (uint32_t)sizeof(*out);
        memcpy(out, &s->records[index % RECORDS], size);
        out->size = size;
    }
    pthread_mutex_unlock(&s->lock);
    return known ? TUTTI_OK : TUTTI_NOT_FOUND;
}

static const tutti_backend_ops ops = {
    .size = sizeof(tutti_backend_ops),
    .available = available,
    .open = open_group,
    .close = close_group,
    .supports = supports,
    .run = run,
    .run_p2p = run_p2p,
    .probe = probe,
    .post_p2p = post_p2p,
    .test_p2p = test_p2p,
    .attend_p2p = attend_p2p,
    .wake_p2p = wake_p2p,
    .cancel_p2p = cancel_p2p,
    .end_p2p = end_p2p,
};

const tutti_backend tti_backend_null = {
    .abi = TUTTI_BACKEND_ABI,
    .size = sizeof(tutti_backend),
    .name = "null",
    .priority = -1, /* "auto" never chooses it */
    .capabilities = TUTTI_CAP_CANCEL,
    .ops = &ops,
};
