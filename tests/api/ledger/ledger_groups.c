/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: backends=shm,hier,gloo,mpi,nccl,rccl,fault */
/*
 * Groups: members, ranks outside of a group, translation of ranks, and the answers of a destroyed group. Backend `null`
 * serves where only the logic of groups matters.
 */
#include "ledger_support.h"

enum { SEEN };

/* Ranks 2 and 0 (in this order) form a group; rank 1 takes no part, and no operation of the group waits for it. */
static void subgroup(tutti_group *world, int32_t rank)
{
    const int32_t members[2] = {2, 0};
    const int64_t one = 1;
    tutti_error error;
    tutti_group *group = NULL;
    if (rank == 1) {
        EXPECT(tutti_group_create(world, members, 2, NULL, &group, &error) == TUTTI_INVALID_ARGUMENT);
    } else {
        EXPECT(tutti_group_create(world, members, 2, NULL, &group, &error) == TUTTI_OK);
        EXPECT(tutti_group_size(group) == 2);
        EXPECT(tutti_group_rank(group) == (rank == 2 ? 0 : 1));
        EXPECT(tutti_group_global_rank(group, 0) == 2);
        EXPECT(tutti_group_global_rank(group, 1) == 0);
        EXPECT(tutti_group_global_rank(group, 2) == -1);
        EXPECT(tutti_group_local_rank(group, 2) == 0);
        EXPECT(tutti_group_local_rank(group, 0) == 1);
        EXPECT(tutti_group_local_rank(group, 1) == -1);
        int32_t value = 1 << rank;
        DLTensor tensor = ledger_tensor(&value, &one, TUTTI_I32);
        EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_SUM, NULL) == TUTTI_OK);
        EXPECT(value == 5);
        value = rank;
        EXPECT(tutti_broadcast(group, &tensor, 0, NULL) == TUTTI_OK); /* its root 0 is rank 2 of the world */
        EXPECT(value == 2);
        EXPECT(tutti_group_destroy(group, &error) == TUTTI_OK);
    }
    EXPECT(tutti_barrier(world, NULL) == TUTTI_OK);
}

/* Colours 7 (ranks 0 and 2, in reversed order by key) and none (rank 1). */
static void split(tutti_group *world, int32_t rank)
{
    const int64_t one = 1;
    tutti_error error;
    tutti_group *group = world;
    EXPECT(tutti_group_split(world, rank == 1 ? -1 : 7, -rank, NULL, &group, &error) == TUTTI_OK);
    if (rank == 1) {
        EXPECT(group == NULL);
        return;
    }
    EXPECT(tutti_group_size(group) == 2);
    EXPECT(tutti_group_rank(group) == (rank == 2 ? 0 : 1));
    int64_t value = rank + 1;
    DLTensor tensor = ledger_tensor(&value, &one, TUTTI_I64);
    EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_PRODUCT, NULL) == TUTTI_OK);
    EXPECT(value == 3);
    EXPECT(tutti_group_destroy(group, &error) == TUTTI_OK);
}

static void accessors(tutti_group *world, int32_t rank)
{
    char text[4096] = "";
    size_t needed = 0;
    tutti_error error;
    EXPECT(rank >= 0 && rank < 3);
    EXPECT(tutti_group_size(world) == 3);
    EXPECT(tutti_group_lanes(world) == 1);
    const char *backend = tutti_group_backend(world);
    EXPECT(backend && strcmp(backend, ledger_on_backend()) == 0);
    EXPECT(tutti_group_algorithm(world, 0) == NULL); /* nothing has run */
    EXPECT(tutti_barrier(world, NULL) == TUTTI_OK);
    EXPECT(tutti_group_algorithm(world, -1) == NULL && tutti_group_algorithm(world, 1) == NULL);
    const char *algorithm = tutti_group_algorithm(world, 0);
    EXPECT(strcmp(ledger_on_backend(), "local") != 0 || (algorithm && strcmp(algorithm, "inline") == 0));
    EXPECT(tutti_group_device(world).device_type == kDLCPU);
    EXPECT((tutti_group_capabilities(world) & TUTTI_CAP_RANK_ORDER) || strcmp(ledger_on_backend(), "local") != 0);
    EXPECT(tutti_group_capabilities(world) & TUTTI_CAP_CANCEL_FLAGGED);
    EXPECT(tutti_group_describe(world, text, sizeof(text), &needed, &error) == TUTTI_OK);
    EXPECT(needed > 0 && strstr(text, ledger_on_backend()) != NULL);
    memset(&error, 0x55, sizeof(error));
    EXPECT(tutti_group_error(world, &error) == TUTTI_OK);
    EXPECT(error.size == sizeof(error) && error.status == TUTTI_OK);
}

static tutti_status three_ranks(tutti_group *world, void *user)
{
    (void)user;
    int32_t rank = tutti_group_rank(world);
    atomic_fetch_or(ledger_flag(SEEN), 1 << rank);
    accessors(world, rank);
    subgroup(world, rank);
    split(world, rank);
    /* Destroy works once. Then every use is refused, and the queries of the handle return -1. */
    tutti_error error;
    EXPECT(tutti_barrier(world, NULL) == TUTTI_OK);
    EXPECT(tutti_group_destroy(world, &error) == TUTTI_OK);
    EXPECT(tutti_group_destroy(world, &error) == TUTTI_BAD_STATE);
    EXPECT(tutti_group_rank(world) == -1);
    EXPECT(tutti_group_size(world) == -1);
    EXPECT(tutti_group_lanes(world) == -1);
    EXPECT(tutti_group_backend(world) == NULL);
    EXPECT(tutti_group_algorithm(world, 0) == NULL);
    EXPECT(tutti_barrier(world, NULL) == TUTTI_BAD_STATE);
    return TUTTI_OK;
}

/* What a rank returns is what tutti_run_threads returns. */
static tutti_status failing_rank(tutti_group *world, void *user)
{
    (void)user;
    return tutti_group_rank(world) == 1 ? TUTTI_NO_RESOURCE : TUTTI_OK;
}

/* A group with any rank and size, without other ranks: it communicates nothing, and records every call. */
static void group_logic_alone(void)
{
    tutti_error error;
    tutti_group *group = NULL;
    EXPECT(tutti_init(TUTTI_CONFIG(.backend = "null", .rank = 5, .world_size = 8), &group, &error) == TUTTI_OK);
    EXPECT(tutti_group_rank(group) == 5);
    EXPECT(tutti_group_size(group) == 8);
    int32_t values[3] = {1, 2, 3};
    const int64_t three = 3;
    DLTensor tensor = ledger_tensor(values, &three, TUTTI_I32);
    EXPECT(tutti_all_reduce(group, &tensor, &tensor, TUTTI_MAX, NULL) == TUTTI_OK);
    EXPECT(tutti_broadcast(group, &tensor, 6, NULL) == TUTTI_OK);
    EXPECT(tutti_group_algorithm(group, 0) == NULL); /* this backend reports no algorithm */
    tutti_null_record record = {.size = sizeof(record)};
    EXPECT(tutti_null_recorded(group, 0, &record, &error) == TUTTI_OK);
    EXPECT(record.operation == TUTTI_OP_ALL_REDUCE && record.reduce_op == TUTTI_MAX && record.dtype == TUTTI_I32);
    EXPECT(record.count == 3);
    EXPECT(tutti_null_recorded(group, 1, &record, &error) == TUTTI_OK);
    EXPECT(record.operation == TUTTI_OP_BROADCAST && record.root == 6);
    EXPECT(tutti_null_recorded(group, 2, &record, &error) == TUTTI_NOT_FOUND);
    /* a reduction has the result of a group of one rank */
    int32_t averages[3] = {0};
    DLTensor output = ledger_tensor(averages, &three, TUTTI_I32);
    float factors[3] = {1, 2, 3};
    DLTensor scaled = ledger_tensor(factors, &three, TUTTI_F32);
    EXPECT(tutti_all_reduce(group, &tensor, &output, TUTTI_AVG, NULL) == TUTTI_OK);
    EXPECT(averages[0] == 1 && averages[2] == 3);
    EXPECT(tutti_all_reduce(group, &scaled, &scaled, TUTTI_PREMUL_SUM, TUTTI_CALL(.scale = 2)) == TUTTI_OK);
    EXPECT(factors[0] == 2 && factors[2] == 6);
    /* tutti_finalize destroys the groups that are left. */
    EXPECT(tutti_finalize(&error) == TUTTI_OK);
    EXPECT(tutti_group_size(group) == -1);
}

int main(void)
{
    ledger_on_ranks(3, three_ranks, NULL);
    EXPECT(atomic_load(ledger_flag(SEEN)) == 7);
    EXPECT(tutti_run_threads(2, failing_rank, NULL, NULL) == TUTTI_NO_RESOURCE);
    group_logic_alone();
    return ledger_result();
}
