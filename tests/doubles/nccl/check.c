/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a call. Numbers are refused as NCCL refuses them. Memory that is not the device's, is too short or overlaps is
 * always refused here. NCCL notices it only in its debug modes, or never, and then returns wrong results.
 */
#include <string.h>

#include "double.h"

static int known_types(void)
{
    if (tti_version() < 21000) {
        return ncclFloat64 + 1;
    }
    return tti_version() < 22400 ? ncclBfloat16 + 1 : ncclFloat8e5m2 + 1;
}

size_t tti_type_size(int type)
{
    static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

static bool is_integer(int type)
{
    return type <= ncclUint64;
}

static const struct tti_custom_op *find_op(const struct ncclComm *comm, int number)
{
    const struct tti_custom_op *op = comm->ops;
    while (op && op->number != number) {
        op = op->next;
    }
    return op;
}

static ncclResult_t resolve_op(const struct ncclComm *comm, const struct tti_call *call,
                               struct tti_reduction *reduction)
{
    static const enum tti_function functions[] = {TTI_SUM, TTI_PROD, TTI_MAX, TTI_MIN};
    const int built_in = tti_version() < 21000 ? ncclAvg : ncclNumOps;
    *reduction = (struct tti_reduction){.function = TTI_SUM};
    if (call->op < 0 || (call->op >= built_in && tti_version() < 21100)) {
        return tti_refuse(ncclInvalidArgument, "%s : invalid reduction operation %d", call->name, call->op);
    }
    if (call->op < ncclAvg) {
        reduction->function = functions[call->op];
        return ncclSuccess;
    }
    if (call->op == ncclAvg) {
        if (is_integer(call->type)) {
            reduction->function = TTI_DIVIDED;
            reduction->divisor = (uint32_t)comm->ranks;
        } else {
            reduction->function = TTI_PRE_MULTIPLIED;
            tti_reduce_reciprocal(call->type, comm->ranks, reduction->scalar);
        }
        return ncclSuccess;
    }
    const struct tti_custom_op *op = find_op(comm, call->op);
    if (!op) {
        return tti_refuse(ncclInvalidArgument, "%s : reduction operation %d unknown to this communicator", call->name,
                          call->op);
    }
    if (op->type != call->type) {
        return tti_refuse(ncclInvalidArgument,
                          "Data type supplied to user-created ncclRedOp_t does not match type given "
                          "to reduction operation");
    }
    *reduction = op->reduction;
    return ncclSuccess;
}

ncclResult_t tti_check_numbers(struct ncclComm *comm, const struct tti_call *call, struct tti_reduction *reduction)
{
    if (call->root < 0 || call->root >= comm->ranks) {
        return tti_refuse(ncclInvalidArgument, "%s : invalid root %d (root should be in the 0..%d range)", call->name,
                          call->root, comm->ranks);
    }
    if (call->type < 0 || call->type >= known_types()) {
        return tti_refuse(ncclInvalidArgument, "%s : invalid type %d", call->name, call->type);
    }
    return resolve_op(comm, call, reduction);
}

ncclResult_t tti_check_memory(const struct ncclComm *comm, const struct tti_call *call, const char *which,
                              const void *memory, size_t elements)
{
    size_t bytes;
    int device = -1;
    if (elements == 0) {
        return ncclSuccess;
    }
    if (!memory || __builtin_mul_overflow(elements, tti_type_size(call->type), &bytes) ||
        !tti_driver_shadow(memory, bytes, &device)) {
        return tti_refuse(ncclInvalidArgument, "%s : %s %p is not a valid pointer (%zu elements)", call->name, which,
                          memory, elements);
    }
    if (device >= 0 && device != comm->device) { /* below: the host's own memory, which the device can read */
        return tti_refuse(ncclInvalidArgument, "%s : %s allocated on device %d mismatchs with NCCL device %d",
                          call->name, which, device, comm->device);
    }
    return ncclSuccess;
}

ncclResult_t tti_check_overlap(const struct tti_call *call, const void *small, size_t small_count, const void *large,
                               size_t large_count, size_t place)
{
    const size_t size = tti_type_size(call->type);
    const uintptr_t a = (uintptr_t)small;
    const uintptr_t b = (uintptr_t)large;
    const bool apart = a + small_count * size <= b || b + large_count * size <= a;
    if (apart || (place != SIZE_MAX && a == b + place * size)) {
        return ncclSuccess;
    }
    fprintf(stderr, "NCCL double: %s : sendbuff and recvbuff overlap, other than for an operation in place\n",
            call->name);
    return tti_refuse(ncclInvalidArgument, "%s : sendbuff and recvbuff overlap, other than for an operation in place",
                      call->name);
}

ncclResult_t tti_check_buffers(const struct ncclComm *comm, const struct tti_call *call)
{
    const bool is_root = comm->rank == call->root;
    const bool sends = call->kind != TTI_RECV && (call->kind != TTI_BROADCAST || is_root);
    const bool receives = call->kind != TTI_SEND && (call->kind != TTI_REDUCE || is_root);
    size_t send_count = call->count;
    size_t recv_count = call->count;
    size_t *larger = call->kind == TTI_ALL_GATHER ? &recv_count : &send_count;
    if ((call->kind == TTI_ALL_GATHER || call->kind == TTI_REDUCE_SCATTER) &&
        __builtin_mul_overflow(call->count, (size_t)comm->ranks, larger)) {
        return tti_refuse(ncclInvalidArgument, "%s : a count of %zu is too large", call->name, call->count);
    }
    ncclResult_t result = ncclSuccess;
    if (sends) {
        result = tti_check_memory(comm, call, "sendbuff", call->send, send_count);
    }
    if (result == ncclSuccess && receives) {
        result = tti_check_memory(comm, call, "recvbuff", call->recv, recv_count);
    }
    if (result != ncclSuccess || !sends || !receives || call->count == 0) {
        return result;
    }
    const size_t place = (size_t)comm->rank * call->count;
    if (call->kind == TTI_ALL_GATHER) {
        return tti_check_overlap(call, call->send, send_count, call->recv, recv_count, place);
    }
    return tti_check_overlap(call, call->recv, recv_count, call->send, send_count,
                             call->kind == TTI_REDUCE_SCATTER ? place : 0);
}
