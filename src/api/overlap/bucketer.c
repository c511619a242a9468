/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bucketer's steps. Gradients become ready in any order, which may differ between ranks; the order of all_reduces
 * of a lane may not. So buckets start strictly in their order: each when it is complete and all before it have started.
 * wait starts the rest. So every rank starts every bucket once in a step, unless one fails. If a bucket cannot start,
 * later ones do not start in this step: on the other ranks the next all_reduce is the failed one's.
 *
 */
#include "api/overlap/bucketer_divide.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "core/call/wire.h"
#include "core/group/group_table.h"

#define DEFAULT_BUCKET_BYTES ((int64_t)25 << 20)

static struct tti_handle_table bucketers = {.kind = TTI_KIND_BUCKETER, .name = "bucketers"};

static tutti_status check_options(const struct tti_checker *k, const tutti_bucketer_options *o, int32_t lanes)
{
    if (o->size != sizeof(*o)) {
        return tti_reject(k, "options.size is %u, this library knows %zu; use TUTTI_BUCKETER_OPTIONS", o->size,
                          sizeof(*o));
    }
    if (o->op < 0 || o->op >= TUTTI_REDUCE_OP_COUNT) {
        return tti_reject(k, "options.op is %d, which is no reduce op (tutti/collectives.h lists them)", o->op);
    }
    if (o->op == TUTTI_PREMUL_SUM) {
        return tti_reject(k, "options.op is premul_sum, for which a bucketer has no factor; use sum or avg");
    }
    if (o->bucket_bytes < 0) {
        return tti_reject(k, "options.bucket_bytes is %lld; it must be 0 (25 MiB) or positive",
                          (long long)o->bucket_bytes);
    }
    if (o->timeout_ms < -1) {
        return tti_reject(k, "options.timeout_ms is %lld; it must be -1 (for ever), 0 (the group's) or positive",
                          (long long)o->timeout_ms);
    }
    if (o->lane < 0 || o->lane >= lanes) {
        return tti_reject(k, "options.lane is %d, the group has lanes 0 to %d", o->lane, lanes - 1);
    }
    return tti_wire_check(o->wire, TUTTI_OP_ALL_REDUCE, k->c->error);
}

/* A bucketer of checked options. */
static tutti_status make(const struct tti_checker *k, tutti_group *group, const DLTensor *const *gradients,
                         size_t count, const tutti_bucketer_options *o, tutti_bucketer **bucketer)
{
    struct tti_bucketer *b = calloc(1, sizeof(*b));
    if (!b) {
        return tti_error_set(k->c->error, TUTTI_NO_MEMORY, "%s: no memory", k->function);
    }
    b->group = group;
    b->rank = k->c->rank;
    b->device = k->c->device;
    b->op = o->op != 0 ? o->op : TUTTI_AVG;
    tutti_call_init(&b->call);
    b->call.timeout_ms = o->timeout_ms;
    b->call.lane = o->lane;
    b->call.wire = o->wire;
    tti_error_clear(&b->why);
    int64_t bucket_bytes = o->bucket_bytes != 0 ? o->bucket_bytes : DEFAULT_BUCKET_BYTES;
    void *handle = NULL;
    tutti_status status = tti_bucketer_divide(k, b, gradients, count, (size_t)bucket_bytes);
    for (size_t i = 0; i < b->buckets && status == TUTTI_OK; i++) {
        status = tti_wire_check_reduction(o->wire, k->c->group, b->bucket[i].dtype, b->op, k->c->error);
    }
    if (status == TUTTI_OK) {
        status = tti_handles_insert(&bucketers, b, &handle, k->c->error);
    }
    if (status != TUTTI_OK) {
        tti_bucketer_free(b);
        return status;
    }
    *bucketer = handle;
    return TUTTI_OK;
}

tutti_status tutti_bucketer_create(tutti_group *group, const DLTensor *const *gradients, size_t count,
                                   const tutti_bucketer_options *options, tutti_bucketer **bucketer, tutti_error *error)
{
    struct tti_call c;
    tutti_status status = tti_call_begin(&c, group, TUTTI_OP_ALL_REDUCE, true, TUTTI_CALL(.error = error));
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_checker k = {.c = &c, .function = "bucketer_create"};
    const tutti_bucketer_options *o = options ? options : TUTTI_BUCKETER_OPTIONS();
    if (!bucketer) {
        status = tti_reject(&k, "the pointer for the bucketer is NULL");
    } else if (!gradients || count == 0) {
        status = tti_reject(&k, "the list of gradients is empty");
    } else if ((status = check_options(&k, o, c.group->lanes)) == TUTTI_OK) {
        status = make(&k, group, gradients, count, o, bucketer);
    }
    return tti_call_end(&c, status);
}

static tutti_status finish(const struct tti_bucketer *b, tutti_error *error, tutti_status status)
{
    if (status == TUTTI_OK) {
        tti_error_clear(error);
    }
    if (error) {
        error->operation = TUTTI_OP_ALL_REDUCE;
        error->rank = b ? b->rank : -1;
    }
    return status;
}

/* The bucketer, for this thread alone until `leave`; or NULL and the error. */
static struct tti_bucketer *enter(tutti_bucketer *handle, const char *function, tutti_error *error,
                                  tutti_status *status)
{
    struct tti_bucketer *b = tti_handles_acquire(&bucketers, handle, status);
    if (!b) {
        tti_handle_error(error, *status, function, "bucketer", TTI_KIND_BUCKETER);
        finish(NULL, error, *status);
        return NULL;
    }
    /* acquire: pairs with the release in `leave` of the thread before */
    if (atomic_exchange_explicit(&b->occupied, true, memory_order_acquire)) {
        *status = tti_error_set(error, TUTTI_BUSY,
                                "%s: another thread is inside a call on this bucketer; one may be at a time", function);
        finish(b, error, *status);
        tti_handles_release(&bucketers, handle);
        return NULL;
    }
    return b;
}

static tutti_status leave(struct tti_bucketer *b, tutti_bucketer *handle, tutti_error *error, tutti_status status)
{
    finish(b, error, status);
    atomic_store_explicit(&b->occupied, false, memory_order_release);
    tti_handles_release(&bucketers, handle);
    return status;
}

/* Whether this thread is in a callback of the group. A destroyed group has none. */
static bool in_callback(const struct tti_bucketer *b)
{
    tutti_status why;
    struct tti_group *g = tti_group_acquire(b->group, &why);
    bool inside = g && tti_in_callback(g);
    if (g) {
        tti_group_release(g);
    }
    return inside;
}

static void locate(const struct tti_bucketer *b, size_t index, tutti_error *error)
{
    const struct tti_bucket *bucket = &b->bucket[index];
    tti_overlap_locate(error, "bucketer: bucket %zu of %zu (gradients %zu to %zu)", index, b->buckets, bucket->begin,
                       bucket->end - 1);
}

/* Starts all complete buckets up to the first incomplete one. OK, or why the next one cannot start in this step. */
static tutti_status start_buckets(struct tti_bucketer *b, tutti_error *error)
{
    while (b->why.status == TUTTI_OK && b->started < b->buckets && b->bucket[b->started].missing == 0) {
        struct tti_bucket *bucket = &b->bucket[b->started];
        DLTensor tensor = tutti_tensor_1d(bucket->data, &bucket->count, bucket->dtype);
        tutti_error why;
        tutti_call call = b->call;
        tensor.device = b->device;
        call.tag = b->digest + (uint32_t)b->started;
        call.error = &why;
        /* a bucket in use is not written; its group has failed, so the start fails, too */
        if ((bucket->in_use || tti_bucket_pack(b, bucket, &why) == TUTTI_OK) &&
            tutti_all_reduce_async(b->group, &tensor, &tensor, b->op, &call, &bucket->work) == TUTTI_OK) {
            b->started++;
        } else {
            b->why = why;
            locate(b, b->started, &b->why);
        }
    }
    if (b->why.status != TUTTI_OK && error) {
        *error = b->why;
    }
    return b->why.status;
}

tutti_status tutti_bucketer_ready(tutti_bucketer *bucketer, size_t index, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_bucketer *b = enter(bucketer, "bucketer_ready", error, &status);
    if (!b) {
        return status;
    }
    if (index >= b->count) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "bucketer_ready: index is %zu; the gradients of this bucketer are 0 to %zu", index,
                               b->count - 1);
    } else if (b->gradient[index].ready) {
        status = tti_error_set(error, TUTTI_BAD_STATE,
                               "bucketer_ready: gradient %zu was ready in this step already; tutti_bucketer_wait "
                               "ends the step",
                               index);
    } else {
        b->gradient[index].ready = true;
        b->bucket[b->gradient[index].bucket].missing--;
        status = start_buckets(b, error);
    }
    return leave(b, bucketer, error, status);
}

/* Whether an engine may still use tensors of the group's operations that have failed; also if the group is gone. */
static bool is_in_use(const struct tti_bucketer *b)
{
    tutti_status why;
    struct tti_group *g = tti_group_acquire(b->group, &why);
    const bool in_use = !g || atomic_load_explicit(&g->in_use, memory_order_relaxed);
    if (g) {
        tti_group_release(g);
    }
    return in_use;
}

/* Waits for the started buckets, in their order, and ends the step. With `results` copies the results into the
 * gradients, and returns the first error of the step. */
static tutti_status end_step(struct tti_bucketer *b, bool results, tutti_error *error)
{
    tutti_status first = TUTTI_OK;
    for (size_t i = 0; i < b->started; i++) {
        tutti_error details;
        tutti_status status = tti_overlap_end(b->bucket[i].work, &details);
        if (status == TUTTI_OK && results) {
            status = tti_bucket_unpack(b, &b->bucket[i], &details);
        }
        b->bucket[i].in_use = b->bucket[i].in_use || (status != TUTTI_OK && b->bucket[i].packed && is_in_use(b));
        if (status != TUTTI_OK && first == TUTTI_OK) {
            first = status;
            locate(b, i, &details);
            if (error) {
                *error = details;
            }
        }
    }
    if (first == TUTTI_OK && b->why.status != TUTTI_OK) {
        first = b->why.status;
        if (error) {
            *error = b->why;
        }
    }
    for (size_t i = 0; i < b->count; i++) {
        b->gradient[i].ready = false;
    }
    for (size_t i = 0; i < b->buckets; i++) {
        b->bucket[i].missing = b->bucket[i].end - b->bucket[i].begin;
    }
    b->started = 0;
    tti_error_clear(&b->why);
    return first;
}

tutti_status tutti_bucketer_wait(tutti_bucketer *bucketer, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_bucketer *b = enter(bucketer, "bucketer_wait", error, &status);
    if (!b) {
        return status;
    }
    if (in_callback(b)) {
        return leave(b, bucketer, error,
                     tti_error_set(error, TUTTI_WOULD_DEADLOCK,
                                   "bucketer_wait: called from a callback of the bucketer's group; the step goes on"));
    }
    for (size_t i = 0; i < b->buckets; i++) {
        b->bucket[i].missing = 0;
    }
    start_buckets(b, NULL);
    return leave(b, bucketer, error, end_step(b, true, error));
}

tutti_status tutti_bucketer_describe(tutti_bucketer *bucketer, size_t *buckets, size_t *largest, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_bucketer *b = enter(bucketer, "bucketer_describe", error, &status);
    if (!b) {
        return status;
    }
    size_t most = 0;
    for (size_t i = 0; i < b->buckets; i++) {
        most = b->bucket[i].bytes > most ? b->bucket[i].bytes : most;
    }
    if (buckets) {
        *buckets = b->buckets;
    }
    if (largest) {
        *largest = most;
    }
    return leave(b, bucketer, error, TUTTI_OK);
}

tutti_status tutti_bucketer_destroy(tutti_bucketer *bucketer, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_bucketer *b = enter(bucketer, "bucketer_destroy", error, &status);
    if (!b) {
        return status;
    }
    if (b->started > 0 && in_callback(b)) {
        return leave(b, bucketer, error,
                     tti_error_set(error, TUTTI_WOULD_DEADLOCK,
                                   "bucketer_destroy: called from a callback of the bucketer's group, with %zu buckets "
                                   "to wait for",
                                   b->started));
    }
    if (tti_handles_retire(&bucketers, bucketer) != TUTTI_OK) {
        return leave(
            b, bucketer, error,
            tti_error_set(error, TUTTI_BUSY, "bucketer_destroy: another thread is inside a call on this bucketer"));
    }
    end_step(b, false, NULL);
    status = finish(b, error, TUTTI_OK);
    tti_bucketer_free(b);
    return status;
}
