/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/* The contents of a failure: status, rank, backend, operation and message; a deadline that passes; version and
 * names. */
#include "ledger_support.h"

#include <sched.h>

enum { READY, DONE };

static void names(void)
{
    EXPECT(strcmp(tutti_status_name(TUTTI_TIMEOUT), "TIMEOUT") == 0);
    const char *text = tutti_status_string(TUTTI_TIMEOUT);
    EXPECT(text && strstr(text, "deadline"));
    EXPECT(strcmp(tutti_operation_name(TUTTI_OP_ALL_REDUCE), "all_reduce") == 0);
    EXPECT(tutti_version() == TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH);
    char version[32];
    snprintf(version, sizeof(version), "%d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
    EXPECT(strcmp(tutti_version_string(), version) == 0);

    tutti_reduce_op op = 0;
    EXPECT(tutti_reduce_op_parse("Avg", &op) == TUTTI_OK && op == TUTTI_AVG);
    EXPECT(tutti_reduce_op_parse("median", &op) == TUTTI_NOT_FOUND && op == TUTTI_AVG);
    EXPECT(strcmp(tutti_reduce_op_name(TUTTI_PRODUCT), "product") == 0);
    EXPECT(tutti_reduce_op_valid(TUTTI_SUM, TUTTI_F32) == 1 && tutti_reduce_op_valid(TUTTI_AVG, TUTTI_BOOL) == 0);
}

static void tensors(void)
{
    static const struct {
        tutti_dtype dtype;
        uint8_t code, bits;
        const char *name;
    } types[] = {
        {TUTTI_F64, kDLFloat, 64, "f64"}, {TUTTI_F32, kDLFloat, 32, "f32"}, {TUTTI_F16, kDLFloat, 16, "f16"},
        {TUTTI_I8, kDLInt, 8, "i8"},      {TUTTI_U8, kDLUInt, 8, "u8"},     {TUTTI_I32, kDLInt, 32, "i32"},
        {TUTTI_U32, kDLUInt, 32, "u32"},  {TUTTI_I64, kDLInt, 64, "i64"},   {TUTTI_U64, kDLUInt, 64, "u64"},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        DLDataType type = tutti_dtype_to_dlpack(types[i].dtype);
        EXPECT(type.code == types[i].code && type.bits == types[i].bits && type.lanes == 1);
        EXPECT(tutti_dtype_from_dlpack((DLDataType){types[i].code, types[i].bits, 1}) == types[i].dtype);
        EXPECT(tutti_dtype_size(types[i].dtype) == types[i].bits / 8u);
        EXPECT(strcmp(tutti_dtype_name(types[i].dtype), types[i].name) == 0);
        tutti_dtype parsed = 0;
        EXPECT(tutti_dtype_parse(types[i].name, &parsed) == TUTTI_OK && parsed == types[i].dtype);
    }
    EXPECT(tutti_dtype_from_dlpack((DLDataType){kDLComplex, 64, 1}) == 0);

    float data[6] = {0};
    const int64_t shape[2] = {2, 3};
    const int64_t transposed[2] = {1, 2};
    DLTensor one = tutti_tensor_1d(data, &shape[1], TUTTI_F32);
    DLTensor two = tutti_tensor_nd(data, 2, shape, TUTTI_F32);
    EXPECT(one.data == data && one.ndim == 1 && one.shape[0] == 3 && one.device.device_type == kDLCPU);
    EXPECT(two.data == data && two.ndim == 2 && two.shape[0] == 2 && two.dtype.bits == 32);
    EXPECT(tutti_tensor_count(&one) == 3 && tutti_tensor_count(&two) == 6);
    EXPECT(tutti_tensor_is_compact(&two) == 1);
    two.strides = (int64_t *)(uintptr_t)transposed;
    EXPECT(tutti_tensor_is_compact(&two) == 0);
}

struct callback_log {
    int32_t calls;
    tutti_status status;
};

static void remember(tutti_status status, const tutti_error *error, void *user)
{
    struct callback_log *log = user;
    log->calls++;
    log->status = status;
    EXPECT(error != NULL);
}

static tutti_status two_ranks(tutti_group *group, void *user)
{
    (void)user;
    int32_t rank = tutti_group_rank(group);
    tutti_error error;
    float value = 1;
    const int64_t one = 1;
    DLTensor tensor = ledger_tensor(&value, &one, TUTTI_F32);

    /* A bad argument: the message, the rank and the backend; the group still works. */
    EXPECT(tutti_broadcast(group, &tensor, 2, TUTTI_CALL(.error = &error)) == TUTTI_INVALID_ARGUMENT);
    EXPECT(error.status == TUTTI_INVALID_ARGUMENT && error.rank == rank && error.operation == TUTTI_OP_BROADCAST);
    EXPECT(strcmp(error.backend, ledger_on_backend()) == 0 && error.message[0] != '\0' &&
           error.scope == TUTTI_SCOPE_CALL);
    EXPECT(tutti_all_reduce(group, NULL, &tensor, TUTTI_SUM, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_all_reduce(group, &tensor, &tensor, 99, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_reduce(group, NULL, &tensor, TUTTI_SUM, 0, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_all_gather(group, NULL, &tensor, 0, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_reduce_scatter(group, NULL, &tensor, TUTTI_SUM, 0, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_broadcast(group, NULL, 0, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_send(group, NULL, 1 - rank, 0, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT(tutti_recv(group, NULL, 1 - rank, 0, NULL, NULL) == TUTTI_INVALID_ARGUMENT);

    /* A tensor on a device that the group does not work on. */
    DLTensor on_gpu = tensor;
    on_gpu.device.device_type = kDLROCM;
    tutti_status status = tutti_all_reduce(group, &on_gpu, &on_gpu, TUTTI_SUM, NULL);
    EXPECT(status == TUTTI_DEVICE_MISMATCH || status == TUTTI_UNSUPPORTED);

    /* Success is reported, too: in the error and by the callback, once. */
    struct callback_log log = {0, TUTTI_INTERNAL};
    EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM,
                            TUTTI_CALL(.error = &error, .callback = remember, .user = &log)) == TUTTI_OK);
    EXPECT(value == 2 && error.status == TUTTI_OK && log.calls == 1 && log.status == TUTTI_OK);
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);

    /* Ranks that call different things get an error, and the group stays usable. */
    status = tutti_all_reduce(group, &tensor, &tensor, rank == 0 ? TUTTI_SUM : TUTTI_MAX, TUTTI_CALL(.error = &error));
    EXPECT(status == TUTTI_MISMATCH && error.message[0] != '\0');
    EXPECT(strstr(error.message, "root") == NULL && strstr(error.message, "dim") == NULL); /* it has none */
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);

    /* Each rank claims to be the root. A root that does not wait gets the error from its next call, but only once. */
    tutti_error next = {0};
    status = tutti_broadcast(group, &tensor, rank, TUTTI_CALL(.error = &error));
    tutti_status later = tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM, TUTTI_CALL(.error = &next));
    EXPECT((status == TUTTI_OK && later == TUTTI_MISMATCH) || (status == TUTTI_MISMATCH && later == TUTTI_OK));
    EXPECT(strstr(status != TUTTI_OK ? error.message : next.message, "broadcast(") != NULL);
    for (int i = 0; i < 3; i++) {
        value = 1;
        EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM, NULL) == TUTTI_OK && value == 2);
    }

    /* The same number of elements in another shape: a transposed shard. The message names both shapes. */
    float many[12] = {0};
    const int64_t shapes[2][2] = {{4, 3}, {2, 6}};
    DLTensor shard = tutti_tensor_nd(many, 2, shapes[rank], TUTTI_F32);
    EXPECT(tutti_all_reduce(group, &shard, &shard, TUTTI_SUM, TUTTI_CALL(.error = &error)) == TUTTI_MISMATCH);
    EXPECT(strstr(error.message, "[4, 3]") != NULL && strstr(error.message, "[2, 6]") != NULL);
    status = tutti_reduce(group, &shard, &shard, TUTTI_SUM, 0, TUTTI_CALL(.error = &error));
    later = tutti_barrier(group, NULL);
    EXPECT(status == TUTTI_MISMATCH || (rank == 1 && status == TUTTI_OK));
    EXPECT(later == (status == TUTTI_OK ? TUTTI_MISMATCH : TUTTI_OK));
    EXPECT(tutti_barrier(group, NULL) == TUTTI_OK);

    /* A deadline that passes: the message never comes, though rank 1 is still there. The error names the limit; the
     * group has failed. */
    if (rank == 1) {
        atomic_store(ledger_flag(READY), 1); /* its barrier has ended, before the group fails */
    }
    while (!atomic_load(ledger_flag(rank == 1 ? DONE : READY))) {
        sched_yield();
    }
    if (rank == 0) {
        EXPECT(tutti_recv(group, &tensor, 1, 3, TUTTI_CALL(.timeout_ms = 50, .error = &error), NULL) == TUTTI_TIMEOUT);
        EXPECT(error.status == TUTTI_TIMEOUT && error.deadline_ms == 50 && error.suspect == 1);
        memset(&error, 0, sizeof(error));
        EXPECT(tutti_group_error(group, &error) != TUTTI_BAD_STATE);
        EXPECT(error.status != TUTTI_OK);
        atomic_store(ledger_flag(DONE), 1);
    }
    return TUTTI_OK;
}

int main(void)
{
    names();
    tensors();
    ledger_on_ranks(2, two_ranks, NULL);
    return ledger_result();
}
