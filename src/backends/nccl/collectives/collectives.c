/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One function for each kind of collective: which of the library's functions run it, on what memory. All ranks choose
 * the same functions, because the choice depends only on what they agree on: kind, type, dimension, counts, version.
 * Whether a rank packs its bytes before, or unpacks them after, depends on its own memory.
 *
 *   parts of one length          the library's own function
 *   all_gather_v                 a broadcast from each rank, in one group of calls
 *   reduce_scatter_v             a reduction to each rank, in one group of calls
 *   all_to_all_v, and gather, scatter and all_to_all before 2.28.3
 *                                sends and receives, in one group of calls; the own part is copied
 *
 * A group of one rank copies. RCCL's all_to_all hangs in such a group (7.2.0, 7.11).
 */
#include "backends/nccl/collectives/collectives.h"

#include "backends/nccl/collectives/call.h"
#include "backends/nccl/collectives/parts.h"
#include "backends/nccl/collectives/reductions.h"
#include "backends/nccl/communicator/communicator.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/parts.h"

#define ALIGNMENT ((size_t)256) /* of tensors in scratch memory */

static size_t bytes_of(const tutti_op *op)
{
    return op->count * tti_dtype_size(op->dtype);
}

/* Whether a function of the library has accepted the work. */
static bool is_accepted(int code)
{
    return code == TTI_NCCL_SUCCESS || code == TTI_NCCL_IN_PROGRESS;
}

/* Ends a group of calls, also after an error; returns the first error. */
static int group_end(const struct tti_nccl_library *library, int code)
{
    const int end = library->GroupEnd();
    return is_accepted(code) ? end : code;
}

/* Ends the reduction, then waits until the work is launched. */
static tutti_status end_reduction(struct tti_nccl_call *c, tti_nccl_comm comm, int code, const char *what,
                                  const struct tti_nccl_reduction *reduction)
{
    const int end = tti_nccl_reduction_end(c, comm, reduction);
    return tti_nccl_await_launch(c, comm, is_accepted(code) && end != TTI_NCCL_SUCCESS ? end : code, what);
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

static tutti_status reduce(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const struct tti_nccl_library *library = c->group->library;
    const bool all = op->kind == TUTTI_OP_ALL_REDUCE;
    struct tti_nccl_reduction reduction;
    const tti_nccl_comm comm = op->count > 0 ? tti_nccl_comm_acquire(c->group, c->lane, c->error) : NULL;
    if (!comm) {
        return op->count > 0 ? TUTTI_REVOKED : TUTTI_OK;
    }
    int code = tti_nccl_reduction_begin(c, comm, &reduction);
    if (code == TTI_NCCL_SUCCESS) {
        code =
            all ? library->AllReduce(op->src, op->dst, op->count, reduction.type, reduction.op, comm, c->lane->stream)
                : library->Reduce(op->src, op->dst, op->count, reduction.type, reduction.op, op->root, comm,
                                  c->lane->stream);
    }
    return end_reduction(c, comm, code, all ? "AllReduce" : "Reduce", &reduction);
}

static tutti_status broadcast(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const tti_nccl_comm comm = op->count > 0 ? tti_nccl_comm_acquire(c->group, c->lane, c->error) : NULL;
    if (!comm) {
        return op->count > 0 ? TUTTI_REVOKED : TUTTI_OK;
    }
    const int code =
        c->group->library->Broadcast(op->dst, op->dst, bytes_of(op), TTI_NCCL_UINT8, op->root, comm, c->lane->stream);
    return tti_nccl_await_launch(c, comm, code, "Broadcast");
}

/* The library has no barrier: an all_reduce of one element, whose result is not read. */
static tutti_status barrier(struct tti_nccl_call *c)
{
    const tti_nccl_comm comm = tti_nccl_comm_acquire(c->group, c->lane, c->error);
    if (!comm) {
        return TUTTI_REVOKED;
    }
    const int code = c->group->library->AllReduce(c->lane->barrier_word, c->lane->barrier_word, 1, TTI_NCCL_UINT32,
                                                  TTI_NCCL_SUM, comm, c->lane->stream);
    return tti_nccl_await_launch(c, comm, code, "AllReduce");
}

/* ---- joined tensors ---------------------------------------------------------------------------------------------- */

/* Scratch memory for one or two joined tensors, if their parts are not contiguous. */
static tutti_status make_room(struct tti_nccl_call *c, const tutti_parts *send, unsigned char **packed_send,
                              const tutti_parts *recv, unsigned char **packed_recv)
{
    const int32_t size = c->group->size;
    const size_t sent = send && !tti_nccl_parts_whole(send) ? tti_parts_total(send, size) : 0;
    const size_t received = recv && !tti_nccl_parts_whole(recv) ? tti_parts_total(recv, size) : 0;
    const size_t behind = (sent + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (sent == 0 && received == 0) {
        return TUTTI_OK;
    }
    unsigned char *scratch = tti_nccl_scratch(c, behind + received);
    if (!scratch) {
        return TUTTI_NO_MEMORY;
    }
    if (sent > 0) {
        *packed_send = scratch;
    }
    if (received > 0) {
        *packed_recv = scratch + behind;
    }
    return TUTTI_OK;
}

static int broadcast_each(struct tti_nccl_call *c, tti_nccl_comm comm, unsigned char *packed)
{
    const tutti_op *op = c->op;
    const struct tti_nccl_library *library = c->group->library;
    struct tti_nccl_part part = {0};
    int code = library->GroupStart();
    if (code != TTI_NCCL_SUCCESS) {
        return code;
    }
    for (int32_t r = 0; r < c->group->size && is_accepted(code); r++) {
        tti_nccl_part_next(&op->recv_parts, &part);
        if (part.bytes > 0) {
            unsigned char *to = tti_nccl_part_place(op->dst, packed, &part);
            code = library->Broadcast(r == c->group->rank ? op->src : to, to, part.bytes, TTI_NCCL_UINT8, r, comm,
                                      c->lane->stream);
        }
    }
    return group_end(library, code);
}

static tutti_status all_gather(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const tutti_parts *parts = &op->recv_parts;
    const bool plain = tti_nccl_parts_plain(parts);
    unsigned char *packed = NULL;
    tutti_status status = make_room(c, NULL, NULL, parts, &packed);
    if (status != TUTTI_OK || tti_parts_total(parts, c->group->size) == 0) {
        return status;
    }
    const tti_nccl_comm comm = tti_nccl_comm_acquire(c->group, c->lane, c->error);
    if (!comm) {
        return TUTTI_REVOKED;
    }
    const int code = plain ? c->group->library->AllGather(op->src, packed ? packed : op->dst, bytes_of(op),
                                                          TTI_NCCL_UINT8, comm, c->lane->stream)
                           : broadcast_each(c, comm, packed);
    status = tti_nccl_await_launch(c, comm, code, plain ? "AllGather" : "Broadcast");
    return status == TUTTI_OK && packed ? tti_nccl_unpack(c, op->dst, parts, packed, -1) : status;
}

static int reduce_each(struct tti_nccl_call *c, tti_nccl_comm comm, const struct tti_nccl_reduction *reduction,
                       unsigned char *packed)
{
    const tutti_op *op = c->op;
    const struct tti_nccl_library *library = c->group->library;
    const unsigned shift = tti_dtype_shift(op->dtype);
    struct tti_nccl_part part = {0};
    int code = library->GroupStart();
    if (code != TTI_NCCL_SUCCESS) {
        return code;
    }
    for (int32_t r = 0; r < c->group->size && is_accepted(code); r++) {
        tti_nccl_part_next(&op->send_parts, &part);
        if (part.bytes > 0) {
            code = library->Reduce(tti_nccl_part_place(op->src, packed, &part), r == c->group->rank ? op->dst : NULL,
                                   part.bytes >> shift, reduction->type, reduction->op, r, comm, c->lane->stream);
        }
    }
    return group_end(library, code);
}

static tutti_status reduce_scatter(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const tutti_parts *parts = &op->send_parts;
    const bool plain = tti_nccl_parts_plain(parts);
    unsigned char *packed = NULL;
    struct tti_nccl_reduction reduction;
    tutti_status status = make_room(c, parts, &packed, NULL, NULL);
    if (status != TUTTI_OK || tti_parts_total(parts, c->group->size) == 0) {
        return status;
    }
    if (packed && (status = tti_nccl_pack(c, packed, op->src, parts)) != TUTTI_OK) {
        return status;
    }
    const tti_nccl_comm comm = tti_nccl_comm_acquire(c->group, c->lane, c->error);
    if (!comm) {
        return TUTTI_REVOKED;
    }
    int code = tti_nccl_reduction_begin(c, comm, &reduction);
    if (code == TTI_NCCL_SUCCESS) {
        code = plain ? c->group->library->ReduceScatter(packed ? packed : op->src, op->dst, op->count, reduction.type,
                                                        reduction.op, comm, c->lane->stream)
                     : reduce_each(c, comm, &reduction, packed);
    }
    return end_reduction(c, comm, code, plain ? "ReduceScatter" : "Reduce", &reduction);
}

/* ---- gather, scatter, all_to_all --------------------------------------------------------------------------------- */

static bool sends_to(const tutti_op *op, int32_t own, int32_t r)
{
    return op->kind == TUTTI_OP_GATHER ? r == op->root : op->kind == TUTTI_OP_ALL_TO_ALL || own == op->root;
}

static bool receives_from(const tutti_op *op, int32_t own, int32_t r)
{
    return op->kind == TUTTI_OP_SCATTER ? r == op->root : op->kind == TUTTI_OP_ALL_TO_ALL || own == op->root;
}

/* Whether this rank sends from, or receives into, a joined tensor; else one part. */
static bool joins_send(const tutti_op *op, int32_t own)
{
    return op->kind == TUTTI_OP_ALL_TO_ALL || (op->kind == TUTTI_OP_SCATTER && own == op->root);
}

static bool joins_recv(const tutti_op *op, int32_t own)
{
    return op->kind == TUTTI_OP_ALL_TO_ALL || (op->kind == TUTTI_OP_GATHER && own == op->root);
}

/* A send to and a receive from each other rank, in one group of calls. */
static int exchange_each(struct tti_nccl_call *c, tti_nccl_comm comm, unsigned char *packed_send,
                         unsigned char *packed_recv)
{
    const tutti_op *op = c->op;
    const struct tti_nccl_library *library = c->group->library;
    const int32_t own = c->group->rank;
    const bool send_joined = joins_send(op, own);
    const bool recv_joined = joins_recv(op, own);
    struct tti_nccl_part sent = {0};
    struct tti_nccl_part received = {0};
    int code = library->GroupStart();
    if (code != TTI_NCCL_SUCCESS) {
        return code;
    }
    for (int32_t r = 0; r < c->group->size && is_accepted(code); r++) {
        size_t out = sends_to(op, own, r) ? bytes_of(op) : 0;
        size_t in = receives_from(op, own, r) ? bytes_of(op) : 0;
        const void *from = op->src;
        void *to = op->dst;
        if (send_joined) {
            tti_nccl_part_next(&op->send_parts, &sent);
            out = sent.bytes;
            from = out > 0 ? tti_nccl_part_place(op->src, packed_send, &sent) : NULL;
        }
        if (recv_joined) {
            tti_nccl_part_next(&op->recv_parts, &received);
            in = received.bytes;
            to = in > 0 ? tti_nccl_part_place(op->dst, packed_recv, &received) : NULL;
        }
        if (r != own && out > 0) {
            code = library->Send(from, out, TTI_NCCL_UINT8, r, comm, c->lane->stream);
        }
        if (r != own && in > 0 && is_accepted(code)) {
            code = library->Recv(to, in, TTI_NCCL_UINT8, r, comm, c->lane->stream);
        }
    }
    return group_end(library, code);
}

/* Copies the part that stays on this rank; exchange_each leaves it out. */
static tutti_status copy_own(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const int32_t own = c->group->rank;
    const bool send_joined = joins_send(op, own);
    const bool recv_joined = joins_recv(op, own);
    if (send_joined && recv_joined) {
        return tti_nccl_part_across(c, op->dst, &op->recv_parts, op->src, &op->send_parts, own);
    }
    if (send_joined) {
        return tti_nccl_part_out(c, op->dst, op->src, &op->send_parts, own);
    }
    return recv_joined ? tti_nccl_part_in(c, op->dst, &op->recv_parts, own, op->src) : TUTTI_OK;
}

/* The library's own function, for parts of one length. */
static int exchange_native(struct tti_nccl_call *c, tti_nccl_comm comm, unsigned char *packed_send,
                           unsigned char *packed_recv)
{
    const tutti_op *op = c->op;
    const struct tti_nccl_library *library = c->group->library;
    const void *src = packed_send ? packed_send : op->src;
    void *dst = packed_recv ? packed_recv : op->dst;
    struct tti_nccl_part part;
    switch (op->kind) {
    case TUTTI_OP_GATHER:
        return library->Gather(src, dst, bytes_of(op), TTI_NCCL_UINT8, op->root, comm, c->lane->stream);
    case TUTTI_OP_SCATTER:
        return library->Scatter(src, dst, bytes_of(op), TTI_NCCL_UINT8, op->root, comm, c->lane->stream);
    default:
        tti_nccl_part_of(&op->send_parts, 0, &part);
        return library->AlltoAll(src, dst, part.bytes, TTI_NCCL_UINT8, comm, c->lane->stream);
    }
}

/* The name of that function, from 2.28.3 on; NULL if there is none. The answer is the same on every rank. */
static const char *native_name(const struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const struct tti_nccl_library *library = c->group->library;
    switch (op->kind) {
    case TUTTI_OP_GATHER:
        return library->Gather ? "Gather" : NULL;
    case TUTTI_OP_SCATTER:
        return library->Scatter ? "Scatter" : NULL;
    default:
        return library->AlltoAll && !op->send_parts.counts ? "AlltoAll" : NULL;
    }
}

static tutti_status exchange(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    const int32_t own = c->group->rank;
    const tutti_parts *send = joins_send(op, own) ? &op->send_parts : NULL;
    const tutti_parts *recv = joins_recv(op, own) ? &op->recv_parts : NULL;
    const char *native = native_name(c);
    unsigned char *packed_send = NULL;
    unsigned char *packed_recv = NULL;
    if (op->count == 0 && op->kind != TUTTI_OP_ALL_TO_ALL) {
        return TUTTI_OK;
    }
    tutti_status status = make_room(c, send, &packed_send, recv, &packed_recv);
    if (status == TUTTI_OK && packed_send) {
        status = tti_nccl_pack(c, packed_send, op->src, send);
    }
    if (status == TUTTI_OK && !native) {
        status = copy_own(c);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    const tti_nccl_comm comm = tti_nccl_comm_acquire(c->group, c->lane, c->error);
    if (!comm) {
        return TUTTI_REVOKED;
    }
    const int code =
        native ? exchange_native(c, comm, packed_send, packed_recv) : exchange_each(c, comm, packed_send, packed_recv);
    status = tti_nccl_await_launch(c, comm, code, native ? native : "Send and ncclRecv");
    return status == TUTTI_OK && packed_recv ? tti_nccl_unpack(c, op->dst, recv, packed_recv, native ? -1 : own)
                                             : status;
}

/* ---- a group of one ---------------------------------------------------------------------------------------------- */

static tutti_status alone(struct tti_nccl_call *c)
{
    const tutti_op *op = c->op;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return op->src == op->dst ? TUTTI_OK
                                  : c->group->device->copy(op->dst, op->src, bytes_of(op), c->lane->stream, c->error);
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        return tti_nccl_part_in(c, op->dst, &op->recv_parts, 0, op->src);
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_REDUCE_SCATTER:
        return tti_nccl_part_out(c, op->dst, op->src, &op->send_parts, 0);
    case TUTTI_OP_ALL_TO_ALL:
        return tti_nccl_part_across(c, op->dst, &op->recv_parts, op->src, &op->send_parts, 0);
    default:
        return TUTTI_OK; /* broadcast, barrier */
    }
}

tutti_status tti_nccl_queue(struct tti_nccl_call *c)
{
    if (c->group->size == 1 && c->op->redop != TUTTI_PREMUL_SUM) {
        return alone(c);
    }
    switch (c->op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return reduce(c);
    case TUTTI_OP_BROADCAST:
        return broadcast(c);
    case TUTTI_OP_BARRIER:
        return barrier(c);
    case TUTTI_OP_ALL_GATHER:
        return all_gather(c);
    case TUTTI_OP_REDUCE_SCATTER:
        return reduce_scatter(c);
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
        return exchange(c);
    default:
        return tti_error_set(c->error, TUTTI_UNSUPPORTED, "backend %s has no %s", c->group->library->backend,
                             tutti_operation_name(c->op->kind));
    }
}
