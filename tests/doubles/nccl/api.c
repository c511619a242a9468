/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported functions without data transfer. The #if of a function has the version that introduced it. */
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "life.h"

ncclResult_t tti_too_new(const char *function)
{
    return tti_refuse(ncclInvalidUsage, "%s : version %d has no such function", function, tti_version());
}

ncclResult_t tti_end_call(struct ncclComm *comm, ncclResult_t result)
{
    const bool blocking = comm->blocking;
    (void)tti_group_check(result);
    if (!blocking && result != ncclSuccess) {
        tti_comm_set_result(comm, result);
    }
    tti_comm_leave(comm);
    const ncclResult_t end = tti_group_end();
    if (result != ncclSuccess) {
        return result;
    }
    return end != ncclSuccess || blocking ? end : tti_comm_result(comm);
}

TTI_NCCL_EXPORT ncclResult_t ncclGetVersion(int *version)
{
    if (!version) {
        return ncclInvalidArgument;
    }
    *version = tti_version();
    return tti_count_call("GetVersion", -1, "version=%d", *version);
}

TTI_NCCL_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const ncclResult_t result = tti_count_call("GetUniqueId", -1, "%s", "");
    if (result != ncclSuccess) {
        return result;
    }
    return id ? tti_id_create(id) : tti_refuse(ncclInvalidArgument, "GetUniqueId : out argument is NULL");
}

static ncclResult_t init(const char *name, ncclComm_t *comm, int ranks, const ncclUniqueId *id, int rank,
                         const ncclConfig_t *config, bool with_config)
{
    ncclResult_t result = tti_count_call(name, rank, "ranks=%d", ranks);
    tti_group_start();
    if (result == ncclSuccess) {
        result = tti_lifecycle_init(comm, ranks, id, rank, config, with_config);
    }
    (void)tti_group_check(result);
    const ncclResult_t end = tti_group_end();
    return result == ncclSuccess ? end : result;
}

TTI_NCCL_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return init("CommInitRank", comm, ranks, &id, rank, NULL, false);
}

TTI_NCCL_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm) {
        return ncclSuccess;
    }
    ncclResult_t result = tti_comm_enter(comm, "CommDestroy");
    if (result != ncclSuccess) {
        return tti_group_check(result);
    }
    result = tti_count_call("CommDestroy", comm->rank, "comm=%d", comm->ordinal);
    tti_group_start();
    if (result == ncclSuccess) {
        result = tti_lifecycle_destroy(comm);
    }
    (void)tti_group_check(result);
    tti_comm_leave(comm);
    const ncclResult_t end = tti_group_end();
    return result == ncclSuccess ? end : result;
}

TTI_NCCL_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm) {
        return ncclSuccess;
    }
    ncclResult_t result = tti_comm_enter(comm, "CommAbort");
    if (result != ncclSuccess) {
        return tti_group_check(result);
    }
    result = tti_count_call("CommAbort", comm->rank, "comm=%d", comm->ordinal);
    tti_group_start();
    if (result == ncclSuccess) {
        result = tti_lifecycle_abort(comm);
    }
    (void)tti_group_check(result);
    tti_comm_leave(comm);
    const ncclResult_t end = tti_group_end();
    return result == ncclSuccess ? end : result;
}

TTI_NCCL_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ncclResult_t result = tti_comm_enter(comm, "CommGetAsyncError");
    if (result != ncclSuccess) {
        return result;
    }
    result = tti_count_call("CommGetAsyncError", comm->rank, "comm=%d", comm->ordinal);
    if (result == ncclSuccess && !error) {
        result = tti_refuse(ncclInvalidArgument, "ncclGetAsyncError : asyncError argument is NULL");
    }
    if (result == ncclSuccess) {
        *error = tti_comm_result(comm);
        pthread_mutex_lock(&comm->lock);
        comm->polls++;
        pthread_cond_broadcast(&comm->changed);
        pthread_mutex_unlock(&comm->lock);
    }
    tti_comm_leave(comm);
    return result;
}

TTI_NCCL_EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };
    const bool known = (int)result >= 0 && result <= ncclInProgress;
    return known ? texts[result] : "unknown result code";
}

TTI_NCCL_EXPORT ncclResult_t ncclGroupStart(void)
{
    const ncclResult_t result = tti_count_call("GroupStart", -1, "%s", "");
    if (result == ncclSuccess) {
        tti_group_start();
    }
    return result;
}

TTI_NCCL_EXPORT ncclResult_t ncclGroupEnd(void)
{
    const ncclResult_t result = tti_group_check(tti_count_call("GroupEnd", -1, "%s", ""));
    const ncclResult_t end = tti_group_end();
    return result == ncclSuccess ? end : result;
}

#if TTI_DOUBLE_LEVEL >= 21100
static ncclResult_t create_op(struct ncclComm *comm, int *number, const void *scalar, int type, int residence)
{
    static _Atomic int next = ncclNumOps;
    ncclResult_t result = tti_comm_ready(comm);
    if (result != ncclSuccess) {
        return result;
    }
    const struct tti_call call = {.name = "RedOpCreatePreMulSum", .type = type};
    struct tti_reduction reduction;
    result = tti_check_numbers(comm, &call, &reduction);
    if (result == ncclSuccess && (!number || !scalar)) {
        result = tti_refuse(ncclInvalidArgument, "RedOpCreatePreMulSum : op or scalar argument is NULL");
    }
    if (result == ncclSuccess && residence == ncclScalarDevice) {
        result = tti_check_memory(comm, &call, "scalar", scalar, 1);
    }
    if (result != ncclSuccess) {
        return result;
    }
    struct tti_custom_op *op = calloc(1, sizeof(*op));
    if (!op) {
        return tti_refuse(ncclSystemError, "RedOpCreatePreMulSum : no memory");
    }
    op->number = atomic_fetch_add(&next, 1);
    op->type = type;
    op->reduction.function = TTI_PRE_MULTIPLIED;
    if (residence == ncclScalarDevice) {
        op->reduction.device_scalar = scalar; /* read when the operation runs */
    } else {
        memcpy(op->reduction.scalar, scalar, tti_type_size(type));
    }
    op->next = comm->ops;
    comm->ops = op;
    *number = op->number;
    return ncclSuccess;
}

TTI_NCCL_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    int number = 0;
    ncclResult_t result =
        tti_version() < 21100 ? tti_too_new("RedOpCreatePreMulSum") : tti_comm_enter(comm, "RedOpCreatePreMulSum");
    if (result != ncclSuccess) {
        return result;
    }
    result = tti_count_call("RedOpCreatePreMulSum", comm->rank, "type=%d comm=%d", (int)type, comm->ordinal);
    if (result == ncclSuccess) {
        result = create_op(comm, op ? &number : NULL, scalar, (int)type, (int)residence);
    }
    if (result == ncclSuccess) {
        *op = (ncclRedOp_t)number;
    }
    tti_comm_leave(comm);
    return result;
}

TTI_NCCL_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = tti_version() < 21100 ? tti_too_new("RedOpDestroy") : tti_comm_enter(comm, "RedOpDestroy");
    if (result != ncclSuccess) {
        return result;
    }
    result = tti_count_call("RedOpDestroy", comm->rank, "op=%d comm=%d", (int)op, comm->ordinal);
    struct tti_custom_op **place = &comm->ops;
    while (*place && (*place)->number != (int)op) {
        place = &(*place)->next;
    }
    struct tti_custom_op *found = *place;
    if (result == ncclSuccess && !found) {
        result = tti_refuse(ncclInvalidArgument, "ncclRedOpDestroy : operator %d %s", (int)op,
                            (int)op < ncclNumOps ? "is a NCCL builtin." : "unknown to this communicator.");
    }
    if (result == ncclSuccess) {
        *place = found->next;
        free(found);
    }
    tti_comm_leave(comm);
    return result;
}
#endif

#if TTI_DOUBLE_LEVEL >= 21300
TTI_NCCL_EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm; /* as in the real one: there is one sentence per process */
    return tti_last_error();
}
#endif

#if TTI_DOUBLE_LEVEL >= 21400
TTI_NCCL_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                                    ncclConfig_t *config)
{
    return tti_version() < 21400 ? tti_too_new("CommInitRankConfig")
                                 : init("CommInitRankConfig", comm, ranks, &id, rank, config, true);
}

TTI_NCCL_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (!comm || tti_version() < 21400) {
        return comm ? tti_too_new("CommFinalize") : ncclSuccess;
    }
    ncclResult_t result = tti_comm_enter(comm, "CommFinalize");
    if (result != ncclSuccess) {
        return tti_group_check(result);
    }
    result = tti_count_call("CommFinalize", comm->rank, "comm=%d", comm->ordinal);
    tti_group_start();
    if (result == ncclSuccess) {
        result = tti_lifecycle_finalize(comm);
    }
    return tti_end_call(comm, result);
}
#endif

#if TTI_DOUBLE_LEVEL >= 21800
/* Of a communicator that is not blocking it returns ncclSuccess, and the communicator is in progress: as in the real
 * one. */
TTI_NCCL_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *split, ncclConfig_t *config)
{
    ncclResult_t result = tti_version() < 21800 ? tti_too_new("CommSplit") : tti_comm_enter(comm, "CommSplit");
    if (result != ncclSuccess) {
        return tti_group_check(result);
    }
    result = tti_count_call("CommSplit", comm->rank, "color=%d key=%d comm=%d", color, key, comm->ordinal);
    tti_group_start();
    if (result == ncclSuccess) {
        result = tti_lifecycle_split(comm, color, key, split, config);
    }
    (void)tti_group_check(result);
    tti_comm_leave(comm);
    const ncclResult_t end = tti_group_end();
    return result == ncclSuccess && end != ncclInProgress ? end : result;
}
#endif

#if TTI_DOUBLE_LEVEL >= 21900
TTI_NCCL_EXPORT ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    ncclResult_t result =
        tti_version() < 21900 ? tti_too_new("MemAlloc") : tti_count_call("MemAlloc", -1, "bytes=%zu", bytes);
    if (result == ncclSuccess && (!memory || bytes == 0)) {
        result = tti_refuse(ncclInvalidArgument, "MemAlloc : nothing to allocate");
    }
    if (result == ncclSuccess) {
        result = tti_driver_open();
    }
    return result == ncclSuccess ? tti_driver_alloc(memory, bytes) : result;
}

TTI_NCCL_EXPORT ncclResult_t ncclMemFree(void *memory)
{
    ncclResult_t result = tti_version() < 21900 ? tti_too_new("MemFree") : tti_count_call("MemFree", -1, "%s", "");
    if (result == ncclSuccess) {
        result = tti_driver_open();
    }
    return result == ncclSuccess && memory ? tti_driver_free(memory) : result;
}

static ncclResult_t add_registration(struct ncclComm *comm, void *memory, size_t bytes, void **handle)
{
    const struct tti_call call = {.name = "CommRegister", .type = ncclInt8};
    ncclResult_t result = tti_comm_ready(comm);
    if (result == ncclSuccess && (!handle || bytes == 0)) {
        result = tti_refuse(ncclInvalidArgument, "CommRegister : nothing to register");
    }
    if (result == ncclSuccess) {
        result = tti_check_memory(comm, &call, "buff", memory, bytes);
    }
    if (result != ncclSuccess) {
        return result;
    }
    struct tti_registration *registration = malloc(sizeof(*registration));
    if (!registration) {
        return tti_refuse(ncclSystemError, "CommRegister : no memory");
    }
    *registration = (struct tti_registration){.next = comm->registrations, .memory = memory, .bytes = bytes};
    comm->registrations = registration;
    *handle = registration;
    return ncclSuccess;
}

TTI_NCCL_EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    ncclResult_t result = tti_version() < 21900 ? tti_too_new("CommRegister") : tti_comm_enter(comm, "CommRegister");
    if (result != ncclSuccess) {
        return result;
    }
    result = tti_count_call("CommRegister", comm->rank, "bytes=%zu comm=%d", bytes, comm->ordinal);
    if (result == ncclSuccess) {
        result = add_registration(comm, memory, bytes, handle);
    }
    tti_comm_leave(comm);
    return result;
}

TTI_NCCL_EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    ncclResult_t result =
        tti_version() < 21900 ? tti_too_new("CommDeregister") : tti_comm_enter(comm, "CommDeregister");
    if (result != ncclSuccess) {
        return result;
    }
    result = tti_count_call("CommDeregister", comm->rank, "comm=%d", comm->ordinal);
    struct tti_registration **place = &comm->registrations;
    while (*place && *place != handle) {
        place = &(*place)->next;
    }
    struct tti_registration *found = *place;
    if (result == ncclSuccess && handle && !found) {
        result = tti_refuse(ncclInvalidUsage, "Deregister: Could not find handle");
    }
    if (result == ncclSuccess && found) {
        *place = found->next;
        free(found);
    }
    tti_comm_leave(comm);
    return result;
}
#endif

#if TTI_DOUBLE_LEVEL >= 22807
TTI_NCCL_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    if (!comm || tti_version() < 22807) {
        return comm ? tti_too_new("CommRevoke") : ncclSuccess;
    }
    ncclResult_t result = tti_comm_enter(comm, "CommRevoke");
    if (result != ncclSuccess) {
        return tti_group_check(result);
    }
    result = tti_count_call("CommRevoke", comm->rank, "flags=%d comm=%d", flags, comm->ordinal);
    tti_group_start();
    if (result == ncclSuccess) {
        result = tti_lifecycle_revoke(comm, flags);
    }
    return tti_end_call(comm, result);
}
#endif
