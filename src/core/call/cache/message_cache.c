/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives in the call cache (entry.h). A hit compares the signature and the addresses, then runs the engine
 * with the descriptor of the entry; a batch copies the descriptor instead. No lane is taken, as in a collective's
 * hit (call_cache.c): messages do not wait for one another. Two atomic operations, for the handle of the group, and
 * those of the flight recorder for messages that it times.
 */
#include "core/call/cache/message_cache.h"

#include "base/error.h"
#include "core/call/cache/entry.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"

/* Of two messages one may have succeeded. */
static tutti_status own_status(const struct tti_cached_call *entry, tutti_status status)
{
    return entry->op.status == TTI_NOT_RUN ? status : entry->op.status;
}

/* A message without a tally, as the timed ones are, is recorded like one that is not cached. Returns its number. */
static uint64_t record_begin(struct tti_cached_call *entry)
{
    const struct tti_group *g = entry->cached_handle.slot->object;
    const struct tti_flight_op what = tti_task_flight_op(&entry->op);
    const uint64_t number = tti_flight_begin(g->flight, &what, entry->op.p2p_tag, 0);
    entry->op.waits_since = tti_flight_waits_since(number);
    return number;
}

static void record_end(struct tti_cached_call *entry, uint64_t number, tutti_status status)
{
    const struct tti_group *g = entry->cached_handle.slot->object;
    const struct tti_flight_op what = tti_task_flight_op(&entry->op);
    tti_flight_end(g->flight, number, &what, entry->op.sequence, own_status(entry, status));
    entry->op.waits_since = NULL;
}

/* Compiled for one message and for two, so that one message runs no loop. */
#define INLINE static inline __attribute__((always_inline))

/* Records and reports that one message has failed, or a tutti_sendrecv, of which one message may have succeeded. */
static void fail_messages(struct tti_cached_call *const *found, int count, tutti_status status, tutti_error *error)
{
    struct tti_group *g = found[0]->cached_handle.slot->object;
    tutti_op op = found[0]->op;
    for (int i = 0; i < count; i++) {
        const tutti_status own = own_status(found[i], status);
        tti_group_note_in_use(g, &found[i]->op);
        if (own != TUTTI_OK) {
            tti_flight_call_failed(found[i]->tally, own);
        }
    }
    tti_group_share_failure(g, op.lane);
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
    uint64_t numbers[2] = {0}; /* in the flight recorder, of those without a tally */
    tutti_op *last = &found[count - 1]->op;
    tutti_message received = TUTTI_MESSAGE_INIT;
    tutti_error own;
    tutti_error *error = options && options->error ? options->error : &own;
    const int64_t timeout_ms = options && options->timeout_ms != 0 ? options->timeout_ms : first->timeout_ms;
    for (int i = 0; i < count; i++) {
        ops[i] = &found[i]->op;
        ops[i]->timeout_ms = timeout_ms;
        ops[i]->status = TTI_NOT_RUN;
        ops[i]->sequence = 0; /* if the engine fails before it has one */
        tti_flight_call_begin(found[i]->tally);
        numbers[i] = tti_cached_call_is_tallied(found[i]) ? 0 : record_begin(found[i]);
    }
    last->message = last->kind == TUTTI_OP_RECV ? &received : NULL;
    const tutti_status status = first->run_p2p(first->state, ops, (size_t)count, timeout_ms, error);
    for (int i = 0; i < count; i++) {
        tti_flight_call_end(found[i]->tally, ops[i]->sequence);
        tti_flight_set_since(found[i]->tally, 0); /* the engine sets it, if it waits for long ... */
        ops[i]->begun_ns = 0;                     /* ... and fault injection this */
        if (numbers[i] != 0) {
            record_end(found[i], numbers[i], status);
        }
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

const tutti_op *tti_message_cache_find(const tutti_group *group, const struct tti_signature *signature,
                                       const tutti_call *options, uint64_t *fill)
{
    struct tti_cached_call *entries = tti_thread.cached_calls;
    struct tti_cached_call *entry = entries ? tti_cached_call_at(entries, group, signature->what) : NULL;
    if (!entry || !tti_cached_call_matches(entry, group, signature) || !tti_cached_call_fits(entry, options)) {
        return NULL;
    }
    /* relaxed: whether the group lives on is found out when the batch runs */
    const uint64_t word = atomic_load_explicit(&entry->cached_handle.slot->word, memory_order_relaxed);
    if (!tti_cached_handle_matches(&entry->cached_handle, word) || entry->op.ndim != 1) { /* as a batch has room for */
        return NULL;
    }
    if (options && options->error) { /* it shows the deadline, which the message gets from the batch */
        entry->op.timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : entry->timeout_ms;
        tti_cached_call_succeeded(options->error, entry);
        options->error->sequence = 0; /* it has not run */
    }
    *fill = entry->fill;
    return &entry->op;
}

/* The engine runs messages to another rank between tensors on the host, if it can run several at once. */
static bool is_cacheable(const struct tti_call *c, const tutti_op *op)
{
    const struct tti_group *g = c->group;
    const bool by_host_engine = !tti_group_on_device(g) && g->host_backend && g->host_backend->ops->run_p2p;
    return op->count > 0 && op->root != g->rank && g->size > 1 && by_host_engine &&
           tti_cached_options_are_plain(&c->options);
}

void tti_message_cache_store(const struct tti_call *c, const struct tti_signature *signature, const tutti_op *op)
{
    struct tti_group *g = c->group;
    const DLTensor *t = op->kind == TUTTI_OP_SEND ? signature->input : signature->output;
    struct tti_cached_call *entry = is_cacheable(c, op) ? tti_cached_call_to_fill(g, signature, op) : NULL;
    if (!entry || !tti_cached_call_set_tensor(entry, 0, signature->output, op->dst) ||
        !tti_cached_call_set_tensor(entry, 1, signature->input, op->src)) {
        return;
    }
    entry->op = *op;
    entry->op.lane = c->options.lane;
    entry->op.begun_ns = 0;
    entry->op.message = NULL;
    entry->op.waits_since = NULL;
    tti_cached_call_fill(entry, g, signature);
    for (int32_t d = 0; d < t->ndim; d++) { /* without dimensions there is no array */
        entry->shape[d] = t->shape[d];
    }
    entry->op.shape = entry->shape;
    entry->run_p2p = g->host_backend->ops->run_p2p;
    entry->state = g->host_state;
    entry->in_place = TTI_NEVER_IN_PLACE;
    entry->same = false;
    tti_cached_call_set_tally(entry, g);
}
