/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=1,3 timeout=120 trees=release,debug,address,undefined */
/*
 * A rank of a job makes groups of one rank for itself, on each backend: before the job's world, beside it, and after
 * it. These groups have no peers, so they neither take numbers in the job's store nor wait there. A world with a name
 * takes none of another name. NCCL and the device under it are doubles.
 */
#include "multi/nccl/nccl_support.h"
#include "time_limits.h"

#include <stdlib.h>
#include <tutti/recovery.h>

static const char *const backends[] = {NULL, "shm", "local", "null", "fault", "gloo", "hier", "nccl"};

static void sum(tutti_group *g, int32_t wanted)
{
    const int64_t one = 1;
    int32_t value = tutti_group_rank(g) + 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &err)));
    EXPECT(value == wanted);
}

/* This group stays open, so that the next ones exist beside it; tutti_finalize destroys it. */
static void alone(const char *backend)
{
    const char *const staging[] = {"nccl.host_staging=yes", NULL};
    tutti_group *g = NULL;
    tutti_status status = tutti_init(
        TUTTI_CONFIG(.world_size = 1, .backend = backend, .device = "cpu", .settings = staging, .timeout_ms = LONG_MS),
        &g, &err);
    if (status == TUTTI_NOT_AVAILABLE && strcmp(backend, "gloo") == 0) {
        return; /* built without it */
    }
    expect_that(status == TUTTI_OK, __LINE__, backend ? backend : "auto");
    if (status == TUTTI_OK) {
        EXPECT(tutti_group_rank(g) == 0 && tutti_group_size(g) == 1);
        sum(g, 1);
    }
}

static void all_alone(void)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        alone(backends[i]);
        alone(backends[i]);
    }
}

/* Rank 0 makes a world of its own at the job's store first. */
static void named(void)
{
    const char *const own_name[] = {"name=alone", NULL};
    const char *const name[] = {"name=together", NULL};
    const char *store = getenv("TUTTI_STORE");
    const char *rank = getenv("TUTTI_RANK");
    tutti_group *own = NULL;
    tutti_group *world = NULL;
    EXPECT(store && rank);
    if (rank && strcmp(rank, "0") == 0) {
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1, .store = store, .settings = own_name, .timeout_ms = LONG_MS),
                             &own, &err));
    }
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.settings = name, .timeout_ms = LONG_MS), &world, &err));
    if (world) {
        const int32_t size = tutti_group_size(world);
        sum(world, size * (size + 1) / 2);
        EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
    }
    EXPECT_OK(tutti_finalize(&err));
}

int main(void)
{
    device_choose("");
    nccl_choose();
    for (int round = 0; round < 2; round++) {
        tutti_group *world = NULL;
        tutti_group *again = NULL;
        all_alone();
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &world, &err));
        const int32_t size = tutti_group_size(world);
        sum(world, size * (size + 1) / 2);
        all_alone();
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &again, &err));
        sum(again, size * (size + 1) / 2);
        sum(world, size * (size + 1) / 2);
        EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
        EXPECT_OK(tutti_finalize(&err));
        named();
    }
    return failures != 0;
}
