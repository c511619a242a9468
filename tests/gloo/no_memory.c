/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No memory on one rank for the packed copy of a strided tensor: NO_MEMORY there, a clear error on the other ranks, and
 * no value written. That rank has no data to send. With memory again the group works.
 */
#include "api/group/init_processes.h"

#include <stdbool.h>

#define RANKS 3
#define COUNT 200

static bool fails;

static bool allocation_fails(void)
{
    const bool now = fails;
    fails = false; /* the next allocation succeeds */
    return now;
}

#include "allocator.h"

static char store[64];

static void run(int32_t rank, void *user)
{
    int64_t count = COUNT;
    int64_t stride = 2;
    float x[2 * COUNT];
    DLTensor t = tutti_tensor_1d(x, &count, TUTTI_F32);
    tutti_group *g = NULL;
    tutti_error e;
    (void)user;
    t.strides = &stride;
    for (int i = 0; i < 2 * COUNT; i++) {
        x[i] = 1;
    }
    EXPECT_OK(tutti_init(
        TUTTI_CONFIG(.backend = "gloo", .store = store, .rank = rank, .world_size = RANKS, .timeout_ms = 60000), &g,
        &e));
    fails = rank == 1;
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e));
    EXPECT(!fails && status == (rank == 1 ? TUTTI_NO_MEMORY : TUTTI_MISMATCH));
    EXPECT(strstr(e.message, rank == 1 ? "no memory to pack" : "rank 1") != NULL);
    EXPECT(x[0] == 1 && x[2 * COUNT - 2] == 1);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
    EXPECT(x[0] == RANKS && x[1] == 1 && x[2 * COUNT - 2] == RANKS);
    EXPECT_OK(tutti_group_destroy(g, NULL));
}

int main(void)
{
    test_stand_alone();
    snprintf(store, sizeof(store), "unix:gloo-no-memory-%ld", (long)getpid());
    test_processes("no memory", RANKS, run, NULL);
    return test_result();
}
