/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks that all operations share: the handle of the group, the size and the fields of the call options, and
 * whether the calling thread is inside a callback of the group. The frames of its callbacks form a list on the stacks
 * of the thread, so callbacks need no allocation.
 */
#include "core/call/call.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/call/wire.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"

#define FLAGS                                                                                                          \
    (TUTTI_CANCELLABLE | TUTTI_HAS_STREAM | TUTTI_ENQUEUE | TUTTI_HANDLERS_ON_OK | TUTTI_CALLBACK_ANYWHERE |           \
     TUTTI_HAS_SCALE)

/* The groups that have this thread in a callback, innermost first: waiting for any of them could never end. */
static _Thread_local const struct tti_callback_frame *callbacks;
static _Thread_local struct tti_deferred *deferred; /* newest last */
_Thread_local struct tti_thread tti_thread TTI_TLS;

bool tti_in_callback(const struct tti_group *group)
{
    for (const struct tti_callback_frame *f = callbacks; f; f = f->outer) {
        if (f->group == group) {
            return true;
        }
    }
    return false;
}

bool tti_in_callback_of(const void *subject)
{
    for (const struct tti_callback_frame *f = callbacks; f; f = f->outer) {
        if (f->subject == subject) {
            return true;
        }
    }
    return false;
}

bool tti_in_any_callback(void)
{
    return callbacks != NULL;
}

void tti_callbacks_defer(struct tti_deferred *d)
{
    struct tti_deferred **end = &deferred;
    while (*end) {
        end = &(*end)->next;
    }
    d->next = NULL;
    *end = d;
}

bool tti_callbacks_have_deferred(const struct tti_deferred *d)
{
    const struct tti_deferred *at = deferred;
    while (at && at != d) {
        at = at->next;
    }
    return at != NULL;
}

/* The oldest; NULL: there is none, or the thread is in a callback. */
static struct tti_deferred *take_deferred(void)
{
    struct tti_deferred *d = callbacks ? NULL : deferred;
    if (d) {
        deferred = d->next;
    }
    return d;
}

void tti_callbacks_run_deferred(void)
{
    struct tti_deferred *d;
    while ((d = take_deferred())) {
        d->run(d);
    }
}

void tti_callbacks_hand_over_deferred(void)
{
    struct tti_deferred *d;
    while ((d = take_deferred())) {
        d->hand_over(d);
    }
}

void tti_callbacks_begin(struct tti_callback_frame *frame, struct tti_group *group, const void *subject)
{
    pthread_mutex_lock(&group->callback_lock);
    *frame = (struct tti_callback_frame){.group = group, .subject = subject, .outer = callbacks};
    callbacks = frame;
    tti_thread.open_scopes++;
}

void tti_callbacks_end(const struct tti_callback_frame *frame, struct tti_group *group)
{
    pthread_mutex_unlock(&group->callback_lock);
    callbacks = frame->outer;
    tti_thread.open_scopes--;
}

static tutti_status stale(struct tti_call *c, tutti_status why)
{
    tti_handle_error(c->error, why, tutti_operation_name(c->operation), "group", TTI_KIND_GROUP);
    c->error->operation = c->operation;
    return why;
}

static const tutti_call defaults = {.size = sizeof(tutti_call), .scale = 1};

bool tti_call_options_copy(tutti_call *to, const tutti_call *from)
{
    const uint32_t size = from->size;
    /* Each version adds at least 8 bytes to the struct: any other size would cut a pointer in two. */
    if (size < sizeof(uint64_t) || size > 4096 || size % sizeof(uint64_t) != 0) {
        return false;
    }
    memcpy(to, from, size < sizeof(*to) ? size : sizeof(*to));
    to->size = sizeof(*to);
    return true;
}

tutti_status tti_call_options_refuse(const tutti_call *from, const char *function, tutti_error *error)
{
    if (from->size != 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "%s: call.size is %u, which is not the size of a tutti_call; use TUTTI_CALL or "
                             "tutti_call_init",
                             function, from->size);
    }
    tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: call.size is 0; use TUTTI_CALL or tutti_call_init, which set it",
                  function);
    /* a struct of zeros has the layout of this header, and was not initialised */
    if (from->error && from->error != error) {
        *from->error = *error;
    }
    return TUTTI_INVALID_ARGUMENT;
}

static tutti_status read_options(struct tti_call *c, const tutti_call *options)
{
    tutti_call *o = &c->options;
    if (options->size == sizeof(*o)) {
        *o = *options;
    } else if (!tti_call_options_copy(o, options)) {
        c->error = options->size == 0 && options->error ? options->error : c->error;
        tti_call_options_refuse(options, tutti_operation_name(c->operation), c->error);
        c->error->operation = c->operation;
        return TUTTI_INVALID_ARGUMENT;
    }
    o->scale = o->scale == 0 && !(o->flags & TUTTI_HAS_SCALE) ? 1 : o->scale;
    c->error = o->error ? o->error : c->error;
    return TUTTI_OK;
}

static bool is_message(tutti_operation operation)
{
    return operation == TUTTI_OP_SEND || operation == TUTTI_OP_RECV || operation == TUTTI_OP_PROBE ||
           operation == TUTTI_OP_BATCH;
}

/* TUTTI_ENQUEUE; the stream is checked. */
static tutti_status check_enqueue(struct tti_call *c)
{
    if (!(c->options.flags & TUTTI_HAS_STREAM)) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                             "%s: the flag TUTTI_ENQUEUE is set without TUTTI_HAS_STREAM, which names the stream",
                             tutti_operation_name(c->operation));
    }
    if (is_message(c->operation)) {
        return tti_error_set(c->error, TUTTI_UNSUPPORTED,
                             "%s: TUTTI_ENQUEUE is for collectives; start messages asynchronously and let the stream "
                             "wait with tutti_work_wait_stream",
                             tutti_operation_name(c->operation));
    }
    if (tti_in_callback(c->group)) {
        return tti_error_set(c->error, TUTTI_WOULD_DEADLOCK,
                             "%s: called with TUTTI_ENQUEUE from a callback of the same group, where a stream that "
                             "cannot wait would make this thread wait",
                             tutti_operation_name(c->operation));
    }
    return TUTTI_OK;
}

static tutti_status check_options(struct tti_call *c)
{
    const struct tti_group *g = c->group;
    const tutti_call *o = &c->options;
    if ((o->flags & ~(uint32_t)FLAGS) != 0) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT, "%s: call.flags 0x%x has bits that are not defined",
                             tutti_operation_name(c->operation), o->flags);
    }
    if (!c->async && (o->token || o->operation_id != 0)) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                             "%s: call.%s is set, which works with asynchronous operations only",
                             tutti_operation_name(c->operation), o->token ? "token" : "operation_id");
    }
    if (o->timeout_ms < -1) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                             "%s: call.timeout_ms is %lld; it must be -1 (for ever), 0 (the group's) or positive",
                             tutti_operation_name(c->operation), (long long)o->timeout_ms);
    }
    if (o->lane < 0 || o->lane >= g->lanes) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT, "%s: call.lane is %d, the group has lanes 0 to %d",
                             tutti_operation_name(c->operation), o->lane, g->lanes - 1);
    }
    const bool has_stream = (o->flags & TUTTI_HAS_STREAM) != 0;
    if ((o->stream || has_stream) && g->device_ops->type == kDLCPU) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT, "%s: call.stream is set, but the group works on the CPU",
                             tutti_operation_name(c->operation));
    }
    if (o->stream && !has_stream) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                             "%s: call.stream is set without the flag TUTTI_HAS_STREAM, which makes it count",
                             tutti_operation_name(c->operation));
    }
    const tutti_status status = o->wire != TUTTI_WIRE_FULL ? tti_wire_check(o->wire, c->operation, c->error) : TUTTI_OK;
    return status == TUTTI_OK && (o->flags & TUTTI_ENQUEUE) != 0 ? check_enqueue(c) : status;
}

/* Nothing has been started: there is no callback, and the reference on the group is given back. */
static tutti_status refuse(struct tti_call *c, tutti_status status)
{
    c->options.callback = NULL;
    return tti_call_end(c, status);
}

static tutti_status check_callbacks(struct tti_call *c)
{
    return !tti_in_callback(c->group)
               ? TUTTI_OK
               : tti_error_set(c->error, TUTTI_WOULD_DEADLOCK, "%s: called from a callback of the same group",
                               tutti_operation_name(c->operation));
}

static inline tutti_status begin(struct tti_call *c, tutti_group *handle, bool has_options)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_group_acquire(handle, &status);
    c->group = g;
    if (__builtin_expect(!g, 0)) {
        return stale(c, status);
    }
    c->rank = g->rank;
    c->group_size = g->size;
    c->device = g->device;
    c->options.timeout_ms = c->options.timeout_ms == 0 ? g->timeout_ms : c->options.timeout_ms;
    if ((has_options && (status = check_options(c)) != TUTTI_OK) ||
        (tti_thread.open_scopes != 0 && !c->async && (status = check_callbacks(c)) != TUTTI_OK)) {
        return refuse(c, status);
    }
    return TUTTI_OK;
}

static inline void reset(struct tti_call *c, tutti_operation operation, bool async)
{
    c->group = NULL;
    c->error = &c->own_error;
    c->operation = operation;
    c->async = async;
    c->on_host = false;
    c->sequence = 0;
    c->options = defaults;
}

tutti_status tti_call_begin(struct tti_call *c, tutti_group *group, tutti_operation operation, bool async,
                            const tutti_call *options)
{
    reset(c, operation, async);
    tutti_status status = options ? read_options(c, options) : TUTTI_OK;
    return status == TUTTI_OK ? begin(c, group, options != NULL) : status;
}

tutti_status tti_call_begin_plain(struct tti_call *c, tutti_group *group, tutti_operation operation, tutti_error *error)
{
    reset(c, operation, false);
    c->options.error = error;
    c->error = error ? error : &c->own_error;
    return begin(c, group, false);
}

tutti_status tti_call_run_p2p(struct tti_call *c, tutti_op *const *ops, size_t count)
{
    struct tti_group *g = c->group;
    if (!g->host_backend || !g->host_backend->ops->run_p2p) {
        c->options.callback = NULL; /* nothing has started */
        return tti_error_set(c->error, TUTTI_UNSUPPORTED, "%s: backend %s has no messages between ranks",
                             tutti_operation_name(c->operation), g->backend->name);
    }
    for (size_t i = 0; i < count; i++) {
        ops[i]->size = sizeof(*ops[i]);
        ops[i]->lane = c->options.lane;
        ops[i]->user_tag = c->options.tag;
        ops[i]->timeout_ms = c->options.timeout_ms;
    }
    tutti_status status = g->host_backend->ops->run_p2p(g->host_state, ops, count, c->options.timeout_ms, c->error);
    c->sequence = count > 0 ? ops[0]->sequence : 0;
    if (status != TUTTI_OK) {
        tti_group_share_failure(g, c->options.lane);
    }
    return status;
}

/* Where the ranks are on several hosts, the error names the host of the suspect, too. */
static void name_host(tutti_error *error, const struct tti_group *group)
{
    const int32_t suspect = error->suspect;
    const size_t used = strlen(error->message);
    if (suspect >= 0 && suspect < group->size && !strstr(error->message, " is on host ")) {
        snprintf(error->message + used, sizeof(error->message) - used, " (rank %d is on host %s)", suspect,
                 group->host_names[suspect]);
    }
}

void tti_call_describe(tutti_error *error, const struct tti_group *group, const tutti_op *op)
{
    error->operation = op->kind;
    error->rank = group->rank;
    error->sequence = op->sequence;
    error->deadline_ms = op->timeout_ms;
    if (group->backend) {
        strncpy(error->backend, group->backend->name, sizeof(error->backend) - 1); /* names are shorter */
    }
    if (group->host_names && error->status != TUTTI_OK) {
        name_host(error, group);
    }
}

void tti_call_complete_error(struct tti_call *c)
{
    const tutti_op op = {.kind = c->operation, .sequence = c->sequence, .timeout_ms = c->options.timeout_ms};
    tti_call_describe(c->error, c->group, &op);
}

static void call_back(struct tti_call *c, tutti_status status)
{
    struct tti_callback_frame frame;
    tti_callbacks_begin(&frame, c->group, NULL);
    c->options.callback(status, c->error, c->options.user);
    tti_callbacks_end(&frame, c->group);
}

tutti_status tti_call_end(struct tti_call *c, tutti_status status)
{
    const bool calls_back = c->options.callback != NULL;
    if (status != TUTTI_OK || c->options.error || c->options.callback) {
        if (status == TUTTI_OK) {
            tti_error_clear(c->error);
        }
        tti_call_complete_error(c);
        if (calls_back) {
            call_back(c, status);
        }
    }
    tti_group_release(c->group);
    if (calls_back) {
        tti_callbacks_run_deferred(); /* the call has left its lane */
    }
    return status;
}
