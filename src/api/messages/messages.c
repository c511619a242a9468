/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: every function makes one or two transfers (core/messages/transfer.h). They run at once, or are recorded if
 * this thread has an open batch on the group. A strided tensor is packed when the message is posted. A strided receive
 * uses scratch memory, and only the received elements are written to the tensor. The asynchronous forms begin alike;
 * what they post differs.
 */
#include "api/messages/messages.h"

#include <tutti/work.h>

#include "base/error.h"
#include "core/call/cache/message_cache.h"
#include "core/group/group_state.h"
#include "core/memory/staging_memory.h"
#include "core/messages/batch.h"

static tutti_status check_peer(const struct tti_checker *k, const char *name, int32_t peer, bool receives)
{
    if ((peer >= 0 && peer < k->c->group_size) || (receives && peer == TUTTI_ANY_SOURCE)) {
        return TUTTI_OK;
    }
    return tti_reject(k, "%s is %d; the ranks of this group are 0 to %d%s", name, (int)peer, (int)k->c->group_size - 1,
                      receives ? ", and -1 is any source" : "");
}

static tutti_status check_tag(const struct tti_checker *k, const char *name, int32_t tag, bool receives)
{
    if (tag >= 0 || (receives && tag == TUTTI_ANY_TAG)) {
        return TUTTI_OK;
    }
    return tti_reject(k, "%s is %d; tags are 0 or more%s", name, (int)tag, receives ? ", and -1 is any tag" : "");
}

/* The receiver of a send: a rank, and a tag. */
static tutti_status check_destination(const struct tti_checker *k, const char *peer_name, int32_t peer,
                                      const char *tag_name, int32_t tag)
{
    const tutti_status status = check_peer(k, peer_name, peer, false);
    return status == TUTTI_OK ? check_tag(k, tag_name, tag, false) : status;
}

static bool is_message_or_null(const tutti_message *message)
{
    return !message || message->size == sizeof(*message);
}

tutti_status tti_message_check_source(const struct tti_checker *k, const char *peer_name, int32_t peer,
                                      const char *tag_name, int32_t tag, const tutti_message *message)
{
    tutti_status status;
    if ((status = check_peer(k, peer_name, peer, true)) != TUTTI_OK ||
        (status = check_tag(k, tag_name, tag, true)) != TUTTI_OK || is_message_or_null(message)) {
        return status;
    }
    return tti_reject(k,
                      "message->size is %u; set it to sizeof(tutti_message), which is %zu here, or use "
                      "TUTTI_MESSAGE_INIT",
                      message->size, sizeof(*message));
}

static void set_shape(struct tti_transfer *t, const struct tti_view *view)
{
    for (int32_t d = 0; d < view->ndim; d++) {
        t->shape[d] = view->shape[d];
    }
    for (int32_t d = 0; d < view->ndim && (!view->compact || tti_group_on_device(t->group)); d++) {
        t->strides[d] = tti_view_stride(view, d);
    }
    t->op.shape = t->shape;
    t->op.ndim = view->ndim;
}

/* A compact copy for a strided tensor or one on a device. */
static tutti_status take_scratch(const struct tti_checker *k, const struct tti_view *view, struct tti_transfer *t)
{
    if (tti_transfer_take_scratch(t, view->bytes)) {
        return TUTTI_OK;
    }
    return tti_error_set(k->c->error, TUTTI_NO_MEMORY,
                         "%s: no memory for a copy of the tensor %s (%zu bytes), which is strided or lies on a device",
                         k->function, view->name, view->bytes);
}

/* The event after which the message may touch a tensor on a device. */
static tutti_status mark_stream(const struct tti_checker *k, struct tti_transfer *t)
{
    const tutti_call *o = &k->c->options;
    return o->flags & TUTTI_HAS_STREAM ? tti_staging_mark(t->group, o->stream, &t->after, k->c->error) : TUTTI_OK;
}

void tti_message_blank(const struct tti_checker *k, tutti_message *message, struct tti_transfer *t)
{
    t->next = NULL;
    t->partner = NULL;
    t->function = k->function;
    t->group = k->c->group;
    t->handle = t->group->handle;
    t->device = t->group->device;
    t->scratch = NULL;
    t->after = NULL;
    t->flight = 0;
    t->message = (tutti_message)TUTTI_MESSAGE_INIT;
    t->message_out = message;
    t->probed = false;
    t->managed = NULL;
    t->managed_out = NULL;
}

static tutti_status make_send(const struct tti_checker *k, const struct tti_view *view, int32_t peer, int32_t tag,
                              struct tti_transfer *t)
{
    tti_message_blank(k, NULL, t);
    t->op = (tutti_op){.size = (uint32_t)sizeof(tutti_op),
                       .kind = TUTTI_OP_SEND,
                       .dtype = view->dtype,
                       .root = peer,
                       .p2p_tag = tag,
                       .src = view->data,
                       .count = view->count};
    set_shape(t, view);
    if (view->bytes == 0 || (view->compact && !tti_group_on_device(k->c->group))) {
        return TUTTI_OK;
    }
    tutti_status status = take_scratch(k, view, t);
    if (status == TUTTI_OK && (status = mark_stream(k, t)) == TUTTI_OK) {
        status = tti_transfer_pack(t, k->c, view->tensor);
        t->op.src = t->scratch;
    }
    if (status != TUTTI_OK) {
        tti_transfer_drop(t);
    }
    return status;
}

static tutti_status make_recv(const struct tti_checker *k, const struct tti_view *view, int32_t peer, int32_t tag,
                              tutti_message *message, struct tti_transfer *t)
{
    tti_message_blank(k, message, t);
    t->op = (tutti_op){.size = (uint32_t)sizeof(tutti_op),
                       .kind = TUTTI_OP_RECV,
                       .dtype = view->dtype,
                       .root = peer,
                       .p2p_tag = tag,
                       .dst = view->data,
                       .count = view->count,
                       .message = &t->message};
    set_shape(t, view);
    if (view->bytes == 0 || (view->compact && !tti_group_on_device(k->c->group))) {
        return TUTTI_OK;
    }
    t->tensor = *view->tensor;
    t->tensor.shape = t->shape;
    t->tensor.strides = t->strides;
    tutti_status status = take_scratch(k, view, t);
    if (status == TUTTI_OK && (status = mark_stream(k, t)) == TUTTI_OK) {
        t->op.dst = t->scratch;
    }
    if (status != TUTTI_OK) {
        tti_transfer_drop(t);
    }
    return status;
}

/* Runs the list of transfers, or records it in the batch. They own nothing afterwards. */
static tutti_status run_or_note(const struct tti_checker *k, tutti_group *group, struct tti_transfer *first)
{
    if (!tti_batch_open(group)) {
        k->c->options.callback = k->callback;
        return tti_transfers_run(k->c, first);
    }
    if (tti_batch_note(first)) {
        return TUTTI_OK;
    }
    tti_transfers_drop(first);
    return tti_error_set(k->c->error, TUTTI_NO_MEMORY, "%s: no memory to record a message in the batch", k->function);
}

tutti_status tti_message_start(const struct tti_checker *k, tutti_group *group, struct tti_transfer *first,
                               tutti_status checked, tutti_work **work)
{
    if (checked != TUTTI_OK) {
        return tti_start_refuse(k->work, checked);
    }
    if (tti_batch_open(group)) {
        tti_transfers_drop(first);
        return tti_start_refuse(k->work,
                                tti_error_set(k->c->error, TUTTI_BAD_STATE,
                                              "%s: a batch is open on this group in this thread; add the message by "
                                              "the synchronous form and start all with tutti_batch_end_async",
                                              k->function));
    }
    return tti_start_messages(k->work, first, NULL, k->callback, work);
}

static tutti_status send(const struct tti_checker *k, const DLTensor *tensor, int32_t peer, int32_t tag,
                         struct tti_transfer *t)
{
    struct tti_view view;
    tutti_status status;
    if ((status = check_destination(k, "peer", peer, "tag", tag)) != TUTTI_OK ||
        (status = tti_check_tensor(k, tensor, "tensor", &view)) != TUTTI_OK) {
        return status;
    }
    return make_send(k, &view, peer, tag, t);
}

/* Runs a message of the call cache, or adds it to this thread's batch on the group. False: nothing was done. */
static inline bool run_cached(tutti_group *group, const struct tti_signature *s, const tutti_call *options,
                              tutti_message *message, tutti_status *status)
{
    if (tti_thread.open_scopes == 0) {
        return tti_message_cache_run(group, s, options, message, status);
    }
    *status = TUTTI_OK;
    return tti_batch_note_cached(group, s, options, message);
}

/* The end of a synchronous call: runs or records it, and stores it in the call cache, unless it needs more than the
 * engine. */
static tutti_status run_and_cache(const struct tti_checker *k, tutti_group *group, struct tti_transfer *first,
                                  const struct tti_signature *signatures)
{
    bool plain = !k->callback;
    for (const struct tti_transfer *t = first; t; t = t->next) {
        plain = plain && !t->scratch;
    }
    const tutti_status status = run_or_note(k, group, first);
    for (const struct tti_transfer *t = first; plain && status == TUTTI_OK && t; t = t->next) {
        tti_message_cache_store(k->c, signatures++, &t->op);
    }
    return status;
}

tutti_status tutti_send(tutti_group *group, const DLTensor *tensor, int32_t peer, int32_t tag, const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of_message(TUTTI_OP_SEND, peer, tag, tensor);
    struct tti_call c;
    struct tti_checker k;
    struct tti_transfer t;
    tutti_status status;
    if (run_cached(group, &s, call, NULL, &status)) {
        return status;
    }
    status = tti_checker_begin(&k, &c, group, TUTTI_OP_SEND, "send", call);
    if (status != TUTTI_OK) {
        return status;
    }
    status = send(&k, tensor, peer, tag, &t);
    return tti_call_end(&c, status == TUTTI_OK ? run_and_cache(&k, group, &t, &s) : status);
}

tutti_status tutti_send_async(tutti_group *group, const DLTensor *tensor, int32_t peer, int32_t tag,
                              const tutti_call *call, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_SEND, "send_async", call, work);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_transfer *t = tti_start_transfers(k.work);
    return tti_message_start(&k, group, t, send(&k, tensor, peer, tag, t), work);
}

static tutti_status recv(const struct tti_checker *k, const DLTensor *tensor, int32_t peer, int32_t tag,
                         tutti_message *message, struct tti_transfer *t)
{
    struct tti_view view;
    tutti_status status;
    if ((status = tti_message_check_source(k, "peer", peer, "tag", tag, message)) != TUTTI_OK ||
        (status = tti_check_output(k, tensor, "tensor", &view)) != TUTTI_OK) {
        return status;
    }
    return make_recv(k, &view, peer, tag, message, t);
}

tutti_status tutti_recv(tutti_group *group, DLTensor *tensor, int32_t peer, int32_t tag, const tutti_call *call,
                        tutti_message *message)
{
    const struct tti_signature s = tti_signature_of_message(TUTTI_OP_RECV, peer, tag, tensor);
    struct tti_call c;
    struct tti_checker k;
    struct tti_transfer t;
    tutti_status status;
    if (is_message_or_null(message) && run_cached(group, &s, call, message, &status)) {
        return status;
    }
    status = tti_checker_begin(&k, &c, group, TUTTI_OP_RECV, "recv", call);
    if (status != TUTTI_OK) {
        return status;
    }
    status = recv(&k, tensor, peer, tag, message, &t);
    return tti_call_end(&c, status == TUTTI_OK ? run_and_cache(&k, group, &t, &s) : status);
}

tutti_status tutti_recv_async(tutti_group *group, DLTensor *tensor, int32_t peer, int32_t tag, const tutti_call *call,
                              tutti_message *message, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_RECV, "recv_async", call, work);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_transfer *t = tti_start_transfers(k.work);
    k.task->result = tensor;
    return tti_message_start(&k, group, t, recv(&k, tensor, peer, tag, message, t), work);
}

static tutti_status recv_alloc(const struct tti_checker *k, int32_t peer, int32_t tag,
                               DLManagedTensorVersioned **tensor, tutti_message *message, struct tti_transfer *t)
{
    if (!tensor) {
        return tti_reject(k, "tensor is NULL; it must point to where the new tensor's address goes");
    }
    const tutti_status status = tti_message_check_source(k, "peer", peer, "tag", tag, message);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_message_blank(k, message, t);
    t->managed_out = tensor;
    t->op = (tutti_op){.size = (uint32_t)sizeof(tutti_op),
                       .kind = TUTTI_OP_RECV,
                       .root = peer,
                       .p2p_tag = tag,
                       .shape = t->shape,
                       .message = &t->message,
                       .allocate = tti_transfer_allocate,
                       .allocate_user = t};
    return TUTTI_OK;
}

tutti_status tutti_recv_alloc(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                              DLManagedTensorVersioned **tensor, tutti_message *message)
{
    struct tti_call c;
    struct tti_checker k;
    struct tti_transfer t;
    tutti_status status = tti_checker_begin(&k, &c, group, TUTTI_OP_RECV, "recv_alloc", call);
    if (status != TUTTI_OK) {
        return status;
    }
    status = recv_alloc(&k, peer, tag, tensor, message, &t);
    return tti_call_end(&c, status == TUTTI_OK ? run_or_note(&k, group, &t) : status);
}

tutti_status tutti_recv_alloc_async(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                    DLManagedTensorVersioned **tensor, tutti_message *message, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_RECV, "recv_alloc_async", call, work);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_transfer *t = tti_start_transfers(k.work);
    return tti_message_start(&k, group, t, recv_alloc(&k, peer, tag, tensor, message, t), work);
}

/* The arguments of tutti_sendrecv. */
struct exchange {
    const DLTensor *send_tensor;
    int32_t destination;
    int32_t send_tag;
    const DLTensor *recv_tensor;
    int32_t source;
    int32_t recv_tag;
    tutti_message *message;
};

/* Fills t[0], the send, and t[1], the receive after it. */
static tutti_status sendrecv(const struct tti_checker *k, const struct exchange *x, struct tti_transfer *t)
{
    struct tti_view out;
    struct tti_view in;
    tutti_status status;
    if ((status = check_destination(k, "destination", x->destination, "send_tag", x->send_tag)) != TUTTI_OK ||
        (status = tti_message_check_source(k, "source", x->source, "recv_tag", x->recv_tag, x->message)) != TUTTI_OK ||
        (status = tti_check_tensor(k, x->send_tensor, "send_tensor", &out)) != TUTTI_OK ||
        (status = tti_check_output(k, x->recv_tensor, "recv_tensor", &in)) != TUTTI_OK) {
        return status;
    }
    if (tti_views_overlap(&out, &in)) {
        return tti_reject(k, "recv_tensor overlaps send_tensor; they must not share memory");
    }
    if ((status = make_send(k, &out, x->destination, x->send_tag, &t[0])) != TUTTI_OK) {
        return status;
    }
    if ((status = make_recv(k, &in, x->source, x->recv_tag, x->message, &t[1])) != TUTTI_OK) {
        tti_transfer_drop(&t[0]);
        return status;
    }
    t[0].next = &t[1];
    return TUTTI_OK;
}

tutti_status tutti_sendrecv(tutti_group *group, const DLTensor *send_tensor, int32_t destination, int32_t send_tag,
                            DLTensor *recv_tensor, int32_t source, int32_t recv_tag, const tutti_call *call,
                            tutti_message *message)
{
    const struct tti_signature s[] = {tti_signature_of_message(TUTTI_OP_SEND, destination, send_tag, send_tensor),
                                      tti_signature_of_message(TUTTI_OP_RECV, source, recv_tag, recv_tensor)};
    struct tti_call c;
    struct tti_checker k;
    struct tti_transfer t[2];
    tutti_status status;
    if (is_message_or_null(message) && tti_thread.open_scopes == 0 &&
        tti_message_cache_run_two(group, s, call, message, &status)) {
        return status;
    }
    status = tti_checker_begin(&k, &c, group, TUTTI_OP_BATCH, "sendrecv", call);
    if (status != TUTTI_OK) {
        return status;
    }
    struct exchange x = {send_tensor, destination, send_tag, recv_tensor, source, recv_tag, message};
    status = sendrecv(&k, &x, t);
    return tti_call_end(&c, status == TUTTI_OK ? run_and_cache(&k, group, t, s) : status);
}

tutti_status tutti_sendrecv_async(tutti_group *group, const DLTensor *send_tensor, int32_t destination,
                                  int32_t send_tag, DLTensor *recv_tensor, int32_t source, int32_t recv_tag,
                                  const tutti_call *call, tutti_message *message, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_BATCH, "sendrecv_async", call, work);
    if (status != TUTTI_OK) {
        return status;
    }
    struct exchange x = {send_tensor, destination, send_tag, recv_tensor, source, recv_tag, message};
    struct tti_transfer *t = tti_start_transfers(k.work);
    k.task->result = recv_tensor;
    return tti_message_start(&k, group, t, sendrecv(&k, &x, t), work);
}
