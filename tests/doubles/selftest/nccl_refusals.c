/* SPDX-License-Identifier: BSD-3-Clause */
/* Refused calls, their results, and their text where GetLastError exists. */
#include <limits.h>
#include <string.h>

#include "nccl.h"
#include "nccl_cases.h"

/* The result, and a part of the sentence. */
static bool refused(struct rank *t, ncclResult_t got, ncclResult_t wanted, const char *words)
{
    const char *sentence = t->GetLastError ? t->GetLastError(NULL) : words;
    if (got != wanted || !strstr(sentence, words)) {
        fprintf(stderr, "rank %d: %d instead of %d, \"%s\"\n", t->rank, (int)got, (int)wanted, sentence);
        return false;
    }
    return true;
}

void case_arguments(struct rank *t)
{
    enum { COUNT = 64 };
    ncclComm_t comm = comm_blocking(t);
    float host[COUNT * MAX_RANKS] = {0};
    float *in = device_alloc(t, COUNT * sizeof(float) * MAX_RANKS);
    float *out = device_alloc(t, COUNT * sizeof(float) * MAX_RANKS);
    (void)device_use(t, 3);
    float *foreign = device_alloc(t, COUNT * sizeof(float));
    const ncclResult_t invalid = ncclInvalidArgument;
    const ncclDataType_t f32 = ncclFloat32;
    void *s = t->stream;
    CHECK(refused(t, t->AllReduce(in, out, COUNT, f32, ncclSum, NULL, s), invalid, "NULL"));
    CHECK(refused(t, t->AllReduce(in, out, COUNT, (ncclDataType_t)12, ncclSum, comm, s), invalid, "invalid type 12"));
    CHECK(refused(t, t->AllReduce(in, out, COUNT, (ncclDataType_t)-1, ncclSum, comm, s), invalid, "invalid type"));
    CHECK(refused(t, t->AllReduce(in, out, COUNT, f32, (ncclRedOp_t)-1, comm, s), invalid, "operation -1"));
    CHECK(refused(t, t->AllReduce(in, out, COUNT, f32, (ncclRedOp_t)77, comm, s), invalid, "operation 77"));
    CHECK(refused(t, t->Reduce(in, out, COUNT, f32, ncclSum, t->ranks, comm, s), invalid, "invalid root"));
    CHECK(refused(t, t->Broadcast(in, out, COUNT, f32, -1, comm, s), invalid, "invalid root"));
    CHECK(refused(t, t->Send(in, COUNT, f32, t->ranks, comm, s), invalid, "invalid root"));
    CHECK(refused(t, t->AllReduce(host, out, COUNT, f32, ncclSum, comm, s), invalid, "sendbuff"));
    CHECK(refused(t, t->AllReduce(in, host, COUNT, f32, ncclSum, comm, s), invalid, "recvbuff"));
    CHECK(refused(t, t->AllReduce(NULL, out, COUNT, f32, ncclSum, comm, s), invalid, "sendbuff"));
    CHECK(refused(t, t->AllReduce(in, out, COUNT * MAX_RANKS + 1, f32, ncclSum, comm, s), invalid, "sendbuff"));
    CHECK(refused(t, t->AllReduce(in, out, SIZE_MAX / 2, f32, ncclSum, comm, s), invalid, "sendbuff"));
    CHECK(refused(t, t->AllGather(in, out, SIZE_MAX / 2 + 1, f32, comm, s), invalid, ""));
    CHECK(refused(t, t->AllReduce(foreign, out, COUNT, f32, ncclSum, comm, s), invalid, "allocated on device 3"));
    /* Overlapping, other than in place. */
    CHECK(refused(t, t->AllReduce(in, in + 1, COUNT, f32, ncclSum, comm, s), invalid, "overlap"));
    const size_t elsewhere = t->rank == 0 ? 1 : 0;
    CHECK(refused(t, t->AllGather(out + elsewhere * COUNT, out, COUNT, f32, comm, s), invalid, "overlap"));
    CHECK(refused(t, t->ReduceScatter(in, in + elsewhere * COUNT, COUNT, f32, ncclSum, comm, s), invalid, "overlap"));
    /* Freed. */
    device_free(t, foreign);
    CHECK(refused(t, t->AllReduce(in, foreign, COUNT, f32, ncclSum, comm, s), invalid, "recvbuff"));
    CHECK(refused(t, t->GroupEnd(), ncclInvalidUsage, "not in a group"));
    /* An error in a group drops all of it. */
    CHECK(t->GroupStart() == ncclSuccess);
    CHECK(t->AllReduce(in, out, COUNT, f32, ncclSum, comm, s) == ncclSuccess);
    CHECK(t->AllReduce(in, host, COUNT, f32, ncclSum, comm, s) == invalid);
    CHECK(t->GroupEnd() == invalid);
    /* The communicator still works. An empty operation does nothing, with any pointers. */
    CHECK(t->AllReduce(NULL, NULL, 0, f32, ncclSum, comm, s) == ncclSuccess);
    CHECK(t->AllReduce(in, out, COUNT, f32, ncclSum, comm, s) == ncclSuccess);
    device_wait(t, s);
    ncclResult_t result;
    CHECK(t->CommGetAsyncError(comm, &result) == ncclSuccess && result == ncclSuccess);
    CHECK(t->CommGetAsyncError(comm, NULL) == invalid);
    CHECK(t->CommGetAsyncError(NULL, &result) == invalid);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
    CHECK(t->CommDestroy(NULL) == ncclSuccess && t->CommAbort(NULL) == ncclSuccess);
    CHECK(strcmp(t->GetErrorString(ncclSuccess), "no error") == 0);
    CHECK(strstr(t->GetErrorString((ncclResult_t)99), "unknown"));
}

/* Functions that the version lacks. */
void case_versions(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    void *memory = device_alloc(t, 64);
    void *s = t->stream;
    const bool has_bfloat16 = t->version >= 21000;
    const bool has_fp8 = t->version >= 22400;
    const ncclResult_t of_bfloat16 = t->AllReduce(memory, memory, 8, ncclBfloat16, ncclSum, comm, s);
    const ncclResult_t of_fp8 = t->AllReduce(memory, memory, 8, ncclFloat8e4m3, ncclSum, comm, s);
    const ncclResult_t of_average = t->AllReduce(memory, memory, 8, ncclFloat32, ncclAvg, comm, s);
    CHECK(of_bfloat16 == (has_bfloat16 ? ncclSuccess : ncclInvalidArgument));
    CHECK(of_fp8 == (has_fp8 ? ncclSuccess : ncclInvalidArgument));
    CHECK(of_average == (has_bfloat16 ? ncclSuccess : ncclInvalidArgument));
    CHECK(!t->CommInitRankConfig == (t->version < 21400));
    CHECK(!t->CommSplit == (t->version < 21800));
    CHECK(!t->MemAlloc == (t->version < 21900));
    CHECK(!t->AlltoAll == (t->version < 22803));
    CHECK(!t->CommRevoke == (t->version < 22807));
    CHECK(!t->AllToAll == !t->rccl);
    device_wait(t, s);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* The newest library with an older version in its variable. */
void case_set_version(struct rank *t)
{
    ncclComm_t comm = NULL;
    void *memory = NULL;
    const ncclUniqueId id = share_id(t);
    struct old_config config = config_undefined();
    CHECK(t->version == 20708);
    CHECK(t->CommInitRankConfig(&comm, t->ranks, id, t->rank, (ncclConfig_t *)(void *)&config) == ncclInvalidUsage);
    CHECK(t->MemAlloc(&memory, 64) == ncclInvalidUsage);
    CHECK(t->CommInitRank(&comm, t->ranks, id, t->rank) == ncclSuccess);
    CHECK(t->CommFinalize(comm) == ncclInvalidUsage);
    memory = device_alloc(t, 64);
    CHECK(t->AllReduce(memory, memory, 8, ncclBfloat16, ncclSum, comm, t->stream) == ncclInvalidArgument);
    CHECK(t->AlltoAll(memory, memory, 8, ncclInt8, comm, t->stream) == ncclInvalidUsage);
    CHECK(t->AllReduce(memory, memory, 8, ncclInt8, ncclSum, comm, t->stream) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* ---- making communicators ---- */

static ncclResult_t join(struct rank *t, int ranks, int rank, const ncclUniqueId *id)
{
    ncclComm_t comm = NULL;
    const ncclResult_t result = t->CommInitRank(&comm, ranks, *id, rank);
    if (comm && result != ncclSuccess) {
        CHECK(t->CommAbort(comm) == ncclSuccess);
    }
    return result;
}

void case_wrong_ranks(struct rank *t)
{
    ncclUniqueId id = share_id(t);
    ncclUniqueId none;
    memset(&none, 'x', sizeof(none));
    CHECK(refused(t, join(t, t->ranks, t->ranks, &id), ncclInvalidArgument, "Invalid rank"));
    CHECK(refused(t, join(t, t->ranks, -1, &id), ncclInvalidArgument, "Invalid rank"));
    CHECK(refused(t, join(t, 0, 0, &id), ncclInvalidArgument, "Invalid rank"));
    CHECK(refused(t, join(t, t->ranks, t->rank, &none), ncclInvalidArgument, "id"));
    CHECK(t->CommInitRank(NULL, t->ranks, id, t->rank) == ncclInvalidArgument);
    CHECK(t->GetUniqueId(NULL) == ncclInvalidArgument);
    /* Different numbers of ranks. */
    CHECK(refused(t, join(t, t->rank == 0 ? 2 : 3, t->rank, &id), ncclInvalidUsage, "mismatch in rank count"));
    /* The same rank twice. */
    id = share_id(t);
    CHECK(refused(t, join(t, 3, 1, &id), ncclInvalidUsage, "already checked in"));
    /* An id that is used up. */
    id = share_id(t);
    ncclComm_t comm = NULL;
    CHECK(t->CommInitRank(&comm, t->ranks, id, t->rank) == ncclSuccess);
    CHECK(refused(t, join(t, t->ranks, t->rank, &id), ncclSystemError, "used up"));
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

void case_same_device(struct rank *t)
{
    const ncclUniqueId id = share_id(t);
    (void)device_use(t, t->rank == 2 ? 2 : 0);
    const ncclResult_t result = join(t, t->ranks, t->rank, &id);
    if (t->rank == 2) {
        CHECK(refused(t, result, ncclRemoteError, "gave up"));
    } else {
        CHECK(refused(t, result, ncclInvalidUsage, "Duplicate GPU detected"));
    }
}

/* Version 2.30 with NCCL_MULTI_RANK_GPU_ENABLE. */
void case_shared_device(struct rank *t)
{
    const ncclUniqueId id = share_id(t);
    float value = 1;
    ncclComm_t comm = NULL;
    CHECK(t->version == 23003);
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    t->stream = device_use(t, 0);
    CHECK(t->CommInitRank(&comm, t->ranks, id, t->rank) == ncclSuccess);
    float *memory = device_alloc(t, sizeof(float));
    device_put(t, memory, &value, sizeof(value));
    CHECK(t->AllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, t->stream) == ncclSuccess);
    device_get(t, &value, memory, sizeof(value));
    CHECK(value == (float)t->ranks);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}

/* Rank 0 runs another version. */
void case_mixed_versions(struct rank *t)
{
    const ncclUniqueId id = share_id(t);
    CHECK(refused(t, join(t, t->ranks, t->rank, &id), ncclInvalidUsage, "Mismatched NCCL version"));
}

static ncclResult_t with_config(struct rank *t, const struct old_config *config)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    CHECK(t->GetUniqueId(&id) == ncclSuccess);
    const ncclResult_t result = t->CommInitRankConfig(&comm, 1, id, 0, (ncclConfig_t *)(void *)config);
    if (result == ncclInProgress) {
        CHECK(comm_await(t, comm) == ncclSuccess);
    }
    CHECK((comm != NULL) == (result == ncclSuccess || result == ncclInProgress));
    CHECK(t->CommDestroy(comm) == ncclSuccess);
    return result;
}

void case_configs(struct rank *t)
{
    struct old_config config = config_undefined();
    CHECK(with_config(t, &config) == ncclSuccess);
    config.blocking = 2;
    CHECK(refused(t, with_config(t, &config), ncclInvalidArgument, "blocking"));
    config.blocking = 0;
    CHECK(with_config(t, &config) == ncclInProgress);
    config.version = 21300; /* had no such field, so it is not read: the real one is blocking then, too */
    CHECK(with_config(t, &config) == ncclSuccess);
    config.version = 21805;
    config.min_ctas = 4;
    CHECK(refused(t, with_config(t, &config), ncclInvalidArgument, "min/max"));
    config.max_ctas = 2;
    CHECK(refused(t, with_config(t, &config), ncclInvalidArgument, "min/max"));
    config.max_ctas = 4;
    CHECK(with_config(t, &config) == ncclInProgress);
    config.size = offsetof(struct old_config, min_ctas); /* later fields are not read */
    config.min_ctas = 9;
    CHECK(with_config(t, &config) == ncclInProgress);
    config.magic = 1;
    CHECK(refused(t, with_config(t, &config), ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER"));
    ncclComm_t comm = NULL;
    ncclUniqueId id = {{0}};
    CHECK(t->CommInitRankConfig(&comm, 1, id, 0, NULL) == ncclInvalidArgument);
}

void case_memory(struct rank *t)
{
    ncclComm_t comm = comm_blocking(t);
    char host[64];
    void *memory = NULL;
    void *handle = NULL;
    void *other = NULL;
    CHECK(t->MemAlloc(&memory, 4096) == ncclSuccess);
    CHECK(t->CommRegister(comm, memory, 4096, &handle) == ncclSuccess && handle);
    CHECK(t->CommRegister(comm, memory, 1 << 24, &other) == ncclInvalidArgument);
    CHECK(t->CommRegister(comm, host, sizeof(host), &other) == ncclInvalidArgument);
    CHECK(t->CommDeregister(comm, host) == ncclInvalidUsage);
    CHECK(t->AllReduce(memory, memory, 1024, ncclFloat32, ncclSum, comm, t->stream) == ncclSuccess);
    device_wait(t, t->stream);
    CHECK(t->CommDeregister(comm, handle) == ncclSuccess);
    CHECK(t->CommDeregister(comm, handle) == ncclInvalidUsage);
    CHECK(t->MemFree(memory) == ncclSuccess);
    CHECK(t->MemAlloc(NULL, 64) == ncclInvalidArgument);
    CHECK(t->CommDestroy(comm) == ncclSuccess);
}
