/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hit works as that of a collective (call_cache.c), without the lane: messages do not wait for one another. The entry
 * has a descriptor, which goes to the engine or, in a batch, is copied into the batch.
 */
#include "core/call/cache/message_cache.h"

#include "base/error.h"
#include "core/call/cache/entry.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"

/* Compiled for one message and for two, so that one message runs no loop. */
#define INLINE static inline __attribute__((always_inline))

/* One message, or the two of a tutti_sendrecv, of which one may have arrived. */
static void fail_messages(struct tti_cached_call *const *found, int count, tutti_status status, tutti_error *error)
{
    const struct tti_group *g = found[0]->cached_handle.slot->object;
    tutti_op op = found[0]->op;
    for (int i = 0; i < count; i++) {
        const tutti_status own = found[i]->op.status == TTI_NOT_RUN ? status : found[i]->op.status;
        if (own != TUTTI_OK) {
            tti_flight_call_failed(found[i]->tally, own);
        }
    }
    tti_group_share_failure(found[0]->cached_handle.slot->object, op.lane);
    op.kind = count == 2 ? TUTTI_OP_BATCH : op.kind;
    tti_call_describe(error, g, &op);
}

/* The entries of all `count` messages. The second one of two is a receive, which must not touch what the first one
 * sends. */
INLINE bool find_all(const tutti_group *group, const struct tti_signature *signatures, int count,
                     const tutti_call *options, struct tti_cached_call **found)
{
    struct tti_cached_call *entries = tti_thread.cached_calls;
    for (int i = 0; i < count; i++) {
        found[i] = entries ? tti_cached_call_at(entries, group, signatures[i].what) : NULL;
        if (!found[i] || !tti_cached_call_matches(found[i], group, &signatures[i]) ||
            !tti_cached_call_fits(found[i], options)) {
            return false;
        }
    }
    if (count == 1) {
        return true;
    }
    const uintptr_t in = (uintptr_t)found[0]->op.src;
    const uintptr_t out = (uintptr_t)found[1]->op.dst;
    return in >= out + found[1]->output.bytes || out >= in + found[0]->input.bytes;
}

INLINE bool run(tutti_group *group, const struct tti_signature *signatures, int count, const tutti_call *options,
                tutti_message *message, tutti_status *result)
{
    struct tti_cached_call *found[2] = {NULL, NULL};
    tutti_op *ops[2] = {NULL, NULL};
    if (!find_all(group, signatures, count, options, found) || !tti_cached_handle_retain(&found[0]->cached_handle)) {
        return false;
    }
    struct tti_cached_call *first = found[0];
    tutti_op *last = &found[count - 1]->op;
    tutti_message received = TUTTI_MESSAGE_INIT;
    tutti_error own;
    tutti_error *error = options && options->error ? options->error : &own;
    const int64_t timeout_ms = options && options->timeout_ms != 0 ? options->timeout_ms : first->timeout_ms;
    for (int i = 0; i < count; i++) {
        ops[i] = &found[i]->op;
        ops[i]->timeout_ms = timeout_ms;
        ops[i]->status = TTI_NOT_RUN;
        tti_flight_call_begin(found[i]->tally);
    }
    last->message = last->kind == TUTTI_OP_RECV ? &received : NULL;
    const tutti_status status = first->run_p2p(first->state, ops, (size_t)count, timeout_ms, error);
    for (int i = 0; i < count; i++) {
        tti_flight_call_end(found[i]->tally, ops[i]->sequence);
        found[i]->tally->since_ns = 0;
    }
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        fail_messages(found, count, status, error);
    } else if (error != &own) {
        tti_cached_call_succeeded(error, first);
        error->operation = count == 2 ? TUTTI_OP_BATCH : first->op.kind;
    }
    if (message && (status == TUTTI_OK || last->status == TUTTI_OK)) {
        *message = received;
    }
    tti_cached_handle_release(&first->cached_handle);
    *result = status;
    return true;
}

bool tti_message_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                           tutti_message *message, tutti_status *status)
{
    return run(group, signature, 1, options, message, status);
}

bool tti_message_cache_run_two(tutti_group *group, const struct tti_signature *signatures, const tutti_call *options,
                               tutti_message *message, tutti_status *status)
{
    return run(group, signatures, 2, options, message, status);
}

const tutti_op *tti_message_cache_find(const tutti_group *group, const struct tti_signature *s,
                                       const tutti_call *options)
{
    struct tti_cached_call *entries = tti_thread.cached_calls;
    struct tti_cached_call *r = entries ? tti_cached_call_at(entries, group, s->what) : NULL;
    if (!r || !tti_cached_call_matches(r, group, s) || r->op.ndim != 1 || !tti_cached_call_fits(r, options) ||
        /* relaxed: whether the group lives on is found out when the batch runs */
        !tti_cached_handle_matches(&r->cached_handle,
                                   atomic_load_explicit(&r->cached_handle.slot->word, memory_order_relaxed))) {
        return NULL;
    }
    if (options && options->error) {
        r->op.timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : r->timeout_ms;
        tti_cached_call_succeeded(options->error, r);
        options->error->sequence = 0; /* it has not run */
    }
    return &r->op;
}

void tti_message_cache_store(const struct tti_call *c, const struct tti_signature *s, const tutti_op *op)
{
    struct tti_group *g = c->group;
    const tutti_call *o = &c->options;
    const bool sends = op->kind == TUTTI_OP_SEND;
    const DLTensor *t = sends ? s->input : s->output;
    if (op->count == 0 || (o->flags | o->tag) != 0 || o->scale != 1 || o->wire != TUTTI_WIRE_FULL ||
        tti_group_on_device(g) || op->root == g->rank || g->size == 1 || !g->host_backend ||
        !g->host_backend->ops->run_p2p) {
        return;
    }
    struct tti_cached_call *r = tti_cached_call_to_fill(g, s, op);
    if (!r || !tti_cached_call_set_tensor(r, 0, s->output, op->dst) ||
        !tti_cached_call_set_tensor(r, 1, s->input, op->src)) {
        return;
    }
    r->op = *op;
    r->op.lane = o->lane;
    r->op.message = NULL;
    r->op.waits_since = NULL;
    tti_cached_call_fill(r, g, s);
    for (int32_t d = 0; d < t->ndim; d++) { /* without dimensions there is no array */
        r->shape[d] = t->shape[d];
    }
    r->op.shape = r->shape;
    r->run_p2p = g->host_backend->ops->run_p2p;
    r->state = g->host_state;
    r->in_place = TTI_NEVER_IN_PLACE;
    r->same = false;
    if (!tti_cached_call_set_tally(r, g)) {
        r->group = NULL; /* the slow path records it */
    }
}
