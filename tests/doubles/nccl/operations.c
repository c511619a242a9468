/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exported functions with data transfer. Each describes its call, which is checked and added to the group.
 * AlltoAll, Gather and Scatter are sends and receives, as in the real library.
 */
#include <stdlib.h>

#include "double.h"
#include "export.h"

static ncclResult_t add(struct ncclComm *comm, const struct tti_call *call, const struct tti_reduction *reduction,
                        int fault)
{
    struct tti_task *task = calloc(1, sizeof(*task));
    if (!task) {
        return tti_refuse(ncclSystemError, "%s : no memory", call->name);
    }
    *task = (struct tti_task){.kind = call->kind,
                              .send = call->send,
                              .recv = call->recv,
                              .count = call->count,
                              .type = call->type,
                              .reduction = *reduction,
                              .root = call->root,
                              .stream = call->stream,
                              .fault = fault};
    return tti_group_add_task(comm, task);
}

/* One of the messages that a call is: its block number `block`. */
static ncclResult_t add_message(struct ncclComm *comm, const struct tti_call *call, enum tti_kind kind, size_t block,
                                int peer, int fault)
{
    const struct tti_reduction none = {.function = TTI_SUM};
    const size_t bytes = block * call->count * tti_type_size(call->type);
    struct tti_call part = *call;
    part.kind = kind;
    part.root = peer;
    part.send = call->send ? (const char *)call->send + bytes : NULL;
    part.recv = call->recv ? (char *)call->recv + bytes : NULL;
    return add(comm, &part, &none, fault);
}

static ncclResult_t check_state(struct ncclComm *comm, const char *name)
{
    if (comm->revoked) {
        return tti_refuse(ncclInvalidUsage, "%s: communicator was revoked", name);
    }
    const ncclResult_t result = tti_comm_ready(comm);
    if (result == ncclSuccess && comm->finalized) {
        return tti_refuse(ncclInvalidUsage, "%s: communicator was finalized", name);
    }
    return result;
}

static ncclResult_t submit(struct ncclComm *comm, const struct tti_call *call)
{
    struct tti_reduction reduction;
    ncclResult_t result = check_state(comm, call->name);
    if (result == ncclSuccess) {
        result = tti_check_numbers(comm, call, &reduction);
    }
    if (result == ncclSuccess) {
        result = tti_check_buffers(comm, call);
    }
    if (result != ncclSuccess || (call->count == 0 && call->kind < TTI_SEND)) {
        return result; /* an empty collective is nothing at all, an empty message is one */
    }
    return add(comm, call, &reduction, tti_next_fault(comm->rank));
}

/* A call that consists of several messages. `send_parts` and `recv_parts` are the numbers of blocks of `count`
 * elements. */
struct pattern {
    size_t send_parts;
    size_t recv_parts;
    bool in_place; /* at the root's block */
};

static bool talks(size_t parts, int peer, int root)
{
    return parts > 1 || (parts == 1 && peer == root);
}

static ncclResult_t submit_messages(struct ncclComm *comm, const struct tti_call *call, const struct pattern *pattern)
{
    struct tti_reduction reduction;
    const size_t send_count = pattern->send_parts * call->count;
    const size_t recv_count = pattern->recv_parts * call->count;
    const bool sends_less = send_count < recv_count;
    ncclResult_t result = check_state(comm, call->name);
    if (result == ncclSuccess) {
        result = tti_check_numbers(comm, call, &reduction);
    }
    if (result == ncclSuccess) {
        result = tti_check_memory(comm, call, "sendbuff", call->send, send_count);
    }
    if (result == ncclSuccess) {
        result = tti_check_memory(comm, call, "recvbuff", call->recv, recv_count);
    }
    if (result == ncclSuccess && send_count > 0 && recv_count > 0) {
        const size_t place = pattern->in_place ? (size_t)call->root * call->count : SIZE_MAX;
        result = sends_less ? tti_check_overlap(call, call->send, send_count, call->recv, recv_count, place)
                            : tti_check_overlap(call, call->recv, recv_count, call->send, send_count, place);
    }
    if (result != ncclSuccess || call->count == 0) {
        return result;
    }
    int fault = tti_next_fault(comm->rank);
    if (TTI_DOUBLE_IS_RCCL && comm->ranks == 1 && !pattern->in_place && tti_version() >= 22707) {
        fault = 0; /* RCCL's of ROCm 7.2 and 7.11 hang there */
    }
    for (int peer = 0; peer < comm->ranks && result == ncclSuccess; peer++) {
        if (talks(pattern->send_parts, peer, call->root)) {
            result = add_message(comm, call, TTI_SEND, pattern->send_parts > 1 ? (size_t)peer : 0, peer, fault);
        }
        if (result == ncclSuccess && talks(pattern->recv_parts, peer, call->root)) {
            result = add_message(comm, call, TTI_RECV, pattern->recv_parts > 1 ? (size_t)peer : 0, peer, -1);
        }
    }
    return result;
}

/* `pattern`: NULL for one task. */
static ncclResult_t operate(struct ncclComm *comm, const struct tti_call *call, const struct pattern *pattern)
{
    ncclResult_t result = tti_comm_enter(comm, call->name);
    if (result != ncclSuccess) {
        return tti_group_check(result);
    }
    result = tti_count_call(call->name, comm->rank, "count=%zu type=%d op=%d root=%d comm=%d", call->count, call->type,
                            call->op, call->root, comm->ordinal);
    tti_group_start();
    if (result == ncclSuccess) {
        result = pattern ? submit_messages(comm, call, pattern) : submit(comm, call);
    }
    return tti_end_call(comm, result);
}

static struct tti_call call_of(const char *name, enum tti_kind kind, const void *send, void *recv, size_t count,
                               ncclDataType_t type, cudaStream_t stream)
{
    return (struct tti_call){
        .name = name, .kind = kind, .send = send, .recv = recv, .count = count, .type = (int)type, .stream = stream};
}

TTI_NCCL_EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    struct tti_call call = call_of("AllReduce", TTI_ALL_REDUCE, send, recv, count, type, stream);
    call.op = (int)op;
    return operate(comm, &call, NULL);
}

TTI_NCCL_EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        int root, ncclComm_t comm, cudaStream_t stream)
{
    struct tti_call call = call_of("Reduce", TTI_REDUCE, send, recv, count, type, stream);
    call.op = (int)op;
    call.root = root;
    return operate(comm, &call, NULL);
}

TTI_NCCL_EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                           ncclComm_t comm, cudaStream_t stream)
{
    struct tti_call call = call_of("Broadcast", TTI_BROADCAST, send, recv, count, type, stream);
    call.root = root;
    return operate(comm, &call, NULL);
}

TTI_NCCL_EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                           ncclComm_t comm, cudaStream_t stream)
{
    const struct tti_call call = call_of("AllGather", TTI_ALL_GATHER, send, recv, count, type, stream);
    return operate(comm, &call, NULL);
}

TTI_NCCL_EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    struct tti_call call = call_of("ReduceScatter", TTI_REDUCE_SCATTER, send, recv, count, type, stream);
    call.op = (int)op;
    return operate(comm, &call, NULL);
}

TTI_NCCL_EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                      cudaStream_t stream)
{
    struct tti_call call = call_of("Send", TTI_SEND, send, NULL, count, type, stream);
    call.root = peer;
    return operate(comm, &call, NULL);
}

TTI_NCCL_EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                      cudaStream_t stream)
{
    struct tti_call call = call_of("Recv", TTI_RECV, NULL, recv, count, type, stream);
    call.root = peer;
    return operate(comm, &call, NULL);
}

/* RCCL had Gather and Scatter long before NCCL, and AlltoAll by another name. */
#if TTI_DOUBLE_LEVEL >= 22803 || TTI_DOUBLE_IS_RCCL
static ncclResult_t all_to_all(const struct tti_call *call, ncclComm_t comm)
{
    const size_t ranks = comm ? (size_t)comm->ranks : 0;
    const struct pattern pattern = {.send_parts = ranks, .recv_parts = ranks};
    return operate(comm, call, &pattern);
}

TTI_NCCL_EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, cudaStream_t stream)
{
    struct tti_call call = call_of("Gather", 0, send, recv, count, type, stream);
    call.root = root;
    const struct pattern pattern = {
        .send_parts = 1, .recv_parts = comm && comm->rank == root ? (size_t)comm->ranks : 0, .in_place = true};
    return TTI_DOUBLE_IS_RCCL || tti_version() >= 22803 ? operate(comm, &call, &pattern) : tti_too_new(call.name);
}

TTI_NCCL_EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                         ncclComm_t comm, cudaStream_t stream)
{
    struct tti_call call = call_of("Scatter", 0, send, recv, count, type, stream);
    call.root = root;
    const struct pattern pattern = {
        .send_parts = comm && comm->rank == root ? (size_t)comm->ranks : 0, .recv_parts = 1, .in_place = true};
    return TTI_DOUBLE_IS_RCCL || tti_version() >= 22803 ? operate(comm, &call, &pattern) : tti_too_new(call.name);
}
#endif

#if TTI_DOUBLE_LEVEL >= 22803
TTI_NCCL_EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                                          ncclComm_t comm, cudaStream_t stream)
{
    const struct tti_call call = call_of("AlltoAll", 0, send, recv, count, type, stream);
    return tti_version() >= 22803 ? all_to_all(&call, comm) : tti_too_new(call.name);
}
#endif

#if TTI_DOUBLE_IS_RCCL
TTI_NCCL_EXPORT ncclResult_t ncclAllToAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                                          ncclComm_t comm, cudaStream_t stream)
{
    const struct tti_call call = call_of("AllToAll", 0, send, recv, count, type, stream);
    return all_to_all(&call, comm);
}

/* A group of messages, none where a count is 0. */
TTI_NCCL_EXPORT ncclResult_t ncclAllToAllv(const void *send, const size_t send_counts[], const size_t send_offsets[],
                                           void *recv, const size_t recv_counts[], const size_t recv_offsets[],
                                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    const size_t size = type >= 0 && type < ncclNumTypes ? tti_type_size((int)type) : 0;
    ncclResult_t result = comm ? ncclSuccess : tti_refuse(ncclInvalidArgument, "AllToAllv : comm argument is NULL");
    const int ranks = comm ? comm->ranks : 0;
    tti_group_start();
    for (int rank = 0; rank < ranks && result == ncclSuccess; rank++) {
        if (send_counts[rank] > 0) {
            result =
                ncclSend((const char *)send + send_offsets[rank] * size, send_counts[rank], type, rank, comm, stream);
        }
        if (recv_counts[rank] > 0 && result == ncclSuccess) {
            result = ncclRecv((char *)recv + recv_offsets[rank] * size, recv_counts[rank], type, rank, comm, stream);
        }
    }
    (void)tti_group_check(result);
    const ncclResult_t end = tti_group_end();
    return result == ncclSuccess ? end : result;
}
#endif
