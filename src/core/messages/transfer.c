/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running messages. A backend only gets messages between two ranks. A message of a rank to itself is a copy between two
 * transfers of one list, made here. Such sends are matched in their order, each with the first posted receive that
 * names this rank or any source and has a matching tag: MPI's matching rule, so no message overtakes another.
 */
#include "core/messages/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/kept_memory.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "core/memory/staging.h"
#include "core/memory/staging_memory.h"
#include "tensor/strided.h"

#define ALIGNMENT 64

static void free_managed(DLManagedTensorVersioned *self)
{
    free(self);
}

static void free_managed_device(DLManagedTensorVersioned *self)
{
    if (self->dl_tensor.data) {
        tti_device_free(self->dl_tensor.device, self->dl_tensor.data);
    }
    free(self);
}

/* One allocation: the managed tensor, its shape and strides, then, on the host, the elements from a cache line on. */
DLManagedTensorVersioned *tti_managed_tensor(const struct tti_group *g, tutti_dtype dtype, size_t content, int32_t ndim,
                                             const int64_t *shape)
{
    const bool here = g->device_ops->type == kDLCPU;
    size_t numbers = 2 * (size_t)ndim * sizeof(int64_t);
    size_t head = (sizeof(DLManagedTensorVersioned) + numbers + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t bytes;
    if (__builtin_add_overflow(here ? content : 0, head + ALIGNMENT, &bytes)) {
        return NULL;
    }
    DLManagedTensorVersioned *m = aligned_alloc(ALIGNMENT, bytes / ALIGNMENT * ALIGNMENT);
    void *data = m && here ? (char *)m + head : NULL;
    if (m && !here && content > 0 && tti_device_alloc(g->device, content, &data, NULL) != TUTTI_OK) {
        free(m);
        m = NULL;
    }
    if (!m) {
        return NULL;
    }
    int64_t *own_shape = (int64_t *)(m + 1);
    int64_t *own_strides = own_shape + ndim;
    uint64_t stride = 1;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        own_shape[d] = shape[d];
        own_strides[d] = (int64_t)stride;
        stride *= (uint64_t)shape[d]; /* wraps only if a length of 0 makes strides meaningless */
    }
    *m = (DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .deleter = here ? free_managed : free_managed_device,
        .dl_tensor = {.data = data,
                      .device = g->device,
                      .ndim = ndim,
                      .dtype = tutti_dtype_to_dlpack(dtype),
                      .shape = own_shape,
                      .strides = own_strides},
    };
    return m;
}

tutti_status tti_transfer_allocate(tutti_op *op, const tutti_message *message, int32_t ndim, const int64_t *shape)
{
    struct tti_transfer *t = op->allocate_user;
    DLManagedTensorVersioned *m = tti_managed_tensor(t->group, message->dtype, (size_t)message->bytes, ndim, shape);
    if (!m) {
        return TUTTI_NO_MEMORY;
    }
    t->managed = m;
    op->dst = m->dl_tensor.data;
    op->dtype = message->dtype;
    op->count = (size_t)message->count;
    if (tti_group_on_device(t->group) && message->bytes > 0) {
        t->tensor = m->dl_tensor;
        if (!tti_transfer_take_scratch(t, (size_t)message->bytes)) {
            return TUTTI_NO_MEMORY;
        }
        op->dst = t->scratch;
    }
    return TUTTI_OK;
}

bool tti_transfer_take_scratch(struct tti_transfer *t, size_t bytes)
{
    t->scratch = tti_group_on_device(t->group) ? tti_staging_take(t->group, bytes, false) : malloc(bytes);
    return t->scratch != NULL;
}

/* Pinned memory belongs to the group, and is freed with it. */
static void free_scratch(struct tti_transfer *t)
{
    tutti_status why;
    if (t->device.device_type == kDLCPU) {
        tti_memory_free_or_keep(t->scratch, t->op.in_use);
    } else {
        struct tti_group *g = tti_group_acquire(t->handle, &why);
        if (g) {
            tti_staging_give(g, t->scratch, t->op.in_use);
            tti_group_release(g);
        }
    }
    t->scratch = NULL;
}

void tti_transfer_drop(struct tti_transfer *t)
{
    if (t->scratch) {
        free_scratch(t);
    }
    if (t->managed && t->op.in_use && t->op.dst == t->managed->dl_tensor.data) {
        tti_memory_keep(t->managed);
    } else if (t->managed) {
        t->managed->deleter(t->managed);
    }
    t->managed = NULL;
    if (t->after) {
        tti_staging_unmark(t->device, t->after);
        t->after = NULL;
    }
}

tutti_status tti_transfer_pack(struct tti_transfer *t, const struct tti_call *c, const DLTensor *tensor)
{
    if (tti_group_on_device(t->group)) {
        tutti_error cause;
        if (tti_group_failure(t->group, &cause) != TUTTI_OK) { /* the copy might wait for work that does not end */
            return tti_error_revoked(c->error, &cause);
        }
        const int64_t deadline = tti_deadline_ns(tti_now_ns(), c->options.timeout_ms);
        const tutti_status status = tti_staging_pack(t->group, t->scratch, tensor, t->after, deadline, c->error);
        return tti_staging_waited(t->group, TUTTI_LANE_MESSAGES, status, c->error);
    }
    tti_tensor_pack(t->scratch, tensor);
    return TUTTI_OK;
}

static tutti_status unpack(const struct tti_call *c, const struct tti_transfer *t, const DLTensor *tensor,
                           const void *packed, tutti_error *error)
{
    if (tti_group_on_device(t->group)) {
        tutti_error own;
        error = error ? error : &own;
        const int64_t deadline = tti_deadline_ns(tti_now_ns(), c->options.timeout_ms);
        const tutti_status status = tti_staging_unpack(t->group, tensor, packed, t->after, deadline, error);
        return tti_staging_waited(t->group, TUTTI_LANE_MESSAGES, status, error);
    }
    tti_tensor_unpack(tensor, packed);
    return TUTTI_OK;
}

/* The first `count` elements of a tensor, in row-major order: whole rows, then the same within the next row. */
static tutti_status unpack_beginning(const struct tti_call *c, const struct tti_transfer *t, size_t count,
                                     tutti_error *error)
{
    const DLTensor *tensor = &t->tensor;
    DLTensor rest = *tensor;
    const char *from = t->scratch;
    size_t element = (size_t)tensor->dtype.bits / 8;
    size_t row = 1;
    tutti_status status = TUTTI_OK;
    for (int32_t d = 0; d < tensor->ndim; d++) {
        row *= (size_t)tensor->shape[d];
    }
    if (tensor->ndim == 0 && count > 0) {
        return unpack(c, t, tensor, from, error);
    }
    for (; count > 0 && rest.ndim > 0 && status == TUTTI_OK; rest.ndim--, rest.shape++, rest.strides++) {
        row /= (size_t)rest.shape[0];
        int64_t rows = (int64_t)(count / row);
        int64_t shape[TUTTI_MAX_NDIM];
        memcpy(shape, rest.shape, (size_t)rest.ndim * sizeof(*shape));
        shape[0] = rows;
        DLTensor whole = rest;
        whole.shape = shape;
        status = rows > 0 ? unpack(c, t, &whole, from, error) : TUTTI_OK;
        from += (size_t)rows * row * element;
        count -= (size_t)rows * row;
        /* to the row that is left, if there is one: behind the last row lies no memory, also with negative strides */
        if (count > 0) {
            rest.data = (char *)rest.data + rows * rest.strides[0] * (int64_t)element;
        }
    }
    return status;
}

/* Delivers the message of a receive to the caller. */
static tutti_status deliver(const struct tti_call *c, struct tti_transfer *t, tutti_error *error)
{
    if (t->op.kind != TUTTI_OP_RECV) {
        return TUTTI_OK;
    }
    tutti_status status = t->scratch ? unpack_beginning(c, t, (size_t)t->message.count, error) : TUTTI_OK;
    if (status == TUTTI_OK && t->message_out) {
        *t->message_out = t->message;
    }
    if (status == TUTTI_OK && t->managed_out) {
        *t->managed_out = t->managed;
        t->managed = NULL;
    }
    return status;
}

static bool can_receive(const struct tti_transfer *t, const struct tti_transfer *send)
{
    return t->op.kind == TUTTI_OP_RECV && !t->partner &&
           (t->op.root == send->op.root || t->op.root == TUTTI_ANY_SOURCE) &&
           (t->op.p2p_tag == send->op.p2p_tag || t->op.p2p_tag == TUTTI_ANY_TAG);
}

static tutti_status reject_alone(struct tti_call *c, const struct tti_transfer *t)
{
    if (t->op.kind == TUTTI_OP_SEND) {
        return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                             "%s: peer is %d, the own rank, and no receive of the same tutti_sendrecv or batch takes a "
                             "message with tag %d from it",
                             t->function, (int)t->op.root, (int)t->op.p2p_tag);
    }
    return tti_error_set(c->error, TUTTI_INVALID_ARGUMENT,
                         "%s: peer is %d%s, and no send of the same tutti_sendrecv or batch matches it: it would "
                         "wait for itself",
                         t->function, (int)t->op.root,
                         t->op.root == TUTTI_ANY_SOURCE ? " (any source) in a group of one rank" : ", the own rank");
}

tutti_status tti_transfers_match(struct tti_call *c, struct tti_transfer *first)
{
    for (struct tti_transfer *t = first; t; t = t->next) {
        t->partner = NULL;
    }
    for (struct tti_transfer *send = first; send; send = send->next) {
        if (send->op.kind != TUTTI_OP_SEND || send->op.root != c->rank) {
            continue;
        }
        struct tti_transfer *recv = first;
        while (recv && !can_receive(recv, send)) {
            recv = recv->next;
        }
        if (!recv) {
            return reject_alone(c, send);
        }
        send->partner = recv;
        recv->partner = send;
    }
    for (struct tti_transfer *t = first; t; t = t->next) {
        const bool no_peer = t->op.root == TUTTI_ANY_SOURCE && c->group_size == 1;
        if (!t->partner && (t->op.root == c->rank || no_peer)) {
            return reject_alone(c, t);
        }
    }
    return TUTTI_OK;
}

static tutti_status copy_to_self(struct tti_call *c, const tutti_op *from, struct tti_transfer *to, tutti_error *error)
{
    to->message = (tutti_message){.size = (uint32_t)sizeof(tutti_message),
                                  .dtype = from->dtype,
                                  .source = c->rank,
                                  .tag = from->p2p_tag,
                                  .count = (int64_t)from->count,
                                  .bytes = (int64_t)(from->count * tutti_dtype_size(from->dtype))};
    if (to->op.allocate) {
        tutti_status status = to->op.allocate(&to->op, &to->message, from->ndim, from->shape);
        if (status != TUTTI_OK) {
            return tti_error_set(error, status, "%s: no memory for a tensor of %lld bytes", to->function,
                                 (long long)to->message.bytes);
        }
    } else if (to->op.dtype != from->dtype || to->op.count < from->count) {
        return tti_error_set(error, TUTTI_MISMATCH,
                             "%s: rank %d sends itself %zu elements of %s with tag %d, but the tensor holds %zu of %s",
                             to->function, (int)c->rank, from->count, tutti_dtype_name(from->dtype), (int)from->p2p_tag,
                             to->op.count, tutti_dtype_name(to->op.dtype));
    }
    if (to->message.bytes > 0) {
        memmove(to->op.dst, from->src, (size_t)to->message.bytes);
    }
    return TUTTI_OK;
}

/* A probe is recorded as the receive that it is to the engine. */
static struct tti_flight_op what_of(const struct tti_transfer *t)
{
    struct tti_flight_op what = tti_task_flight_op(&t->op);
    what.kind = what.kind == TUTTI_OP_PROBE ? TUTTI_OP_RECV : what.kind;
    return what;
}

void tti_transfers_record_begin(const struct tti_call *c, struct tti_transfer *first)
{
    struct tti_flight_group *f = c->group->flight;
    for (struct tti_transfer *t = f ? first : NULL; t; t = t->next) {
        if (!t->partner) {
            const struct tti_flight_op what = what_of(t);
            t->flight = tti_flight_begin(f, &what, t->op.p2p_tag, t->op.begun_ns);
            t->op.waits_since = tti_flight_waits_since(t->flight);
        }
    }
}

void tti_transfers_record_end(const struct tti_call *c, struct tti_transfer *first, tutti_status status)
{
    for (struct tti_transfer *t = first; t; t = t->next) {
        if (t->flight != 0) {
            const struct tti_flight_op what = what_of(t);
            const tutti_status own = status == TUTTI_OK || t->op.status != TTI_NOT_RUN ? t->op.status : status;
            tti_flight_end(c->group->flight, t->flight, &what, t->op.sequence, own);
            t->flight = 0;
            t->op.waits_since = NULL;
        }
    }
}

/* Runs all messages between two ranks; `ops` has room for them. Afterwards each op has its own status. */
static tutti_status run_with_peers(struct tti_call *c, struct tti_transfer *first, tutti_op **ops)
{
    size_t count = 0;
    for (struct tti_transfer *t = first; t; t = t->next) {
        if (!t->partner) {
            t->op.status = TTI_NOT_RUN;
            ops[count++] = &t->op;
        }
    }
    if (count == 0) {
        return TUTTI_OK;
    }
    tti_transfers_record_begin(c, first);
    const tutti_status status = tti_call_run_p2p(c, ops, count);
    tti_transfers_record_end(c, first, status);
    return status;
}

/* Copies between transfers of this rank. Their first failure decides only if it comes first in the list. */
static tutti_status copy_all(struct tti_call *c, struct tti_transfer *first, tutti_status status)
{
    bool decided = status > TUTTI_MISMATCH; /* the group has failed, or all was cancelled: that comes first */
    for (struct tti_transfer *t = first; t; t = t->next) {
        if (t->partner && t->op.kind == TUTTI_OP_SEND) {
            tutti_status copied = copy_to_self(c, &t->op, t->partner, decided ? NULL : c->error);
            t->op.status = copied;
            t->partner->op.status = copied;
            if (copied != TUTTI_OK && !decided) {
                status = copied;
                decided = true;
            }
        } else if (!t->partner && t->op.status != TUTTI_OK) {
            decided = true;
        }
    }
    return status;
}

tutti_status tti_transfers_conclude(struct tti_call *c, struct tti_transfer *first, tutti_status status)
{
    if (status == TUTTI_CANCELLED) { /* all of it */
        tti_transfers_drop(first);
        return status;
    }
    for (struct tti_transfer *t = first; t; t = t->next) {
        if (!t->partner && (status == TUTTI_OK || t->op.status == TTI_NOT_RUN)) {
            t->op.status = status;
        }
    }
    status = copy_all(c, first, status);
    for (struct tti_transfer *t = first; t; t = t->next) {
        tutti_status delivered =
            t->op.status == TUTTI_OK ? deliver(c, t, status == TUTTI_OK ? c->error : NULL) : TUTTI_OK;
        status = status == TUTTI_OK ? delivered : status;
        tti_group_note_in_use(c->group, &t->op);
        tti_transfer_drop(t);
    }
    return status;
}

void tti_transfers_drop(struct tti_transfer *first)
{
    for (struct tti_transfer *t = first; t; t = t->next) {
        tti_transfer_drop(t);
    }
}

static bool is_with_peer(const struct tti_call *c, const struct tti_transfer *t)
{
    return t->op.root != c->rank && c->group_size > 1;
}

/* One or two messages, none of them with this rank itself: there is nothing to match or to count. */
static tutti_status run_plain(struct tti_call *c, struct tti_transfer *first)
{
    tutti_op *ops[2] = {&first->op, first->next ? &first->next->op : NULL};
    first->op.status = TTI_NOT_RUN;
    if (first->next) {
        first->next->op.status = TTI_NOT_RUN;
    }
    tti_transfers_record_begin(c, first);
    tutti_status status = tti_call_run_p2p(c, ops, first->next ? 2 : 1);
    tti_transfers_record_end(c, first, status);
    if (status != TUTTI_OK) {
        return tti_transfers_conclude(c, first, status);
    }
    for (struct tti_transfer *t = first; t; t = t->next) {
        tutti_status delivered = deliver(c, t, status == TUTTI_OK ? c->error : NULL);
        status = status == TUTTI_OK ? delivered : status;
        tti_transfer_drop(t);
    }
    return status;
}

tutti_status tti_transfers_run(struct tti_call *c, struct tti_transfer *first)
{
    const struct tti_transfer *second = first->next;
    if (is_with_peer(c, first) && !first->partner &&
        (!second || (!second->next && !second->partner && is_with_peer(c, second)))) {
        return run_plain(c, first);
    }
    tutti_op *few[4];
    tutti_op **ops = few;
    size_t count = 0;
    for (struct tti_transfer *t = first; t; t = t->next) {
        count++;
    }
    tutti_status status = tti_transfers_match(c, first);
    if (status == TUTTI_OK && count > sizeof(few) / sizeof(few[0]) && !(ops = malloc(count * sizeof(*ops)))) {
        status = tti_error_set(c->error, TUTTI_NO_MEMORY, "no memory for a batch of %zu messages", count);
    }
    if (status != TUTTI_OK) {
        c->options.callback = NULL; /* nothing has started */
        tti_transfers_drop(first);
        return status;
    }
    status = tti_transfers_conclude(c, first, run_with_peers(c, first, ops));
    if (ops != few) {
        free(ops);
    }
    return status;
}
