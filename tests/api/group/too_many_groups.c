/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug */
/* A process holds as many groups as it can. No rank gets a group of which such a process was to be a member. */
#include "init_processes.h"

enum { RANKS = 2, MOST = 8192 };

static void join(int32_t rank, void *user)
{
    static tutti_group *held[MOST];
    tutti_group *world = NULL;
    tutti_group *made = NULL;
    tutti_error e;
    EXPECT_OK(tutti_init(
        TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = RANKS, .store = user, .timeout_ms = LONG_MS), &world,
        &e));
    for (int i = 1; i < MOST && rank == 0; i++) {
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "null", .rank = 0, .world_size = 1), &held[i], &e));
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    /* with the memory of the parent, and at the rendezvous */
    const tutti_config *const configs[] = {NULL, TUTTI_CONFIG(.lanes = 3)};
    for (int i = 0; i < 2; i++) {
        EXPECT_ERROR(&e, TUTTI_NO_RESOURCE, "holds 8192 groups already",
                     tutti_group_split(world, 0, rank, configs[i], &made, &e));
        EXPECT(e.suspect == 0 || rank == 0);
        EXPECT_OK(tutti_barrier(world, NULL));
    }
    if (rank == 0) {
        EXPECT_OK(tutti_group_destroy(held[1], NULL));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_group_split(world, 0, rank, configs[i], &made, &e));
        EXPECT_OK(tutti_barrier(made, NULL));
        EXPECT_OK(tutti_group_destroy(made, NULL));
    }
    EXPECT_OK(tutti_finalize(&e));
}

int main(void)
{
    char store[80];
    test_stand_alone();
    test_store_name(store, sizeof(store));
    test_processes("too many groups", RANKS, join, store);
    return test_result();
}
