/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2 timeout=120 trees=release,debug,address,undefined */
/*
 * The setting check_calls on an engine that does not compare calls itself, NCCL (a double): the errors of ranks that
 * make different calls, or call alone; and groups that cannot have the setting. The suite
 * (conformance.nccl.check_calls) tests every kind of difference.
 */
#include "nccl_support.h"

enum { COUNT = 1000, WAIT_MS = 8000 };

static tutti_group *base;
static struct device_vector v;
static int rank;
static int ranks;

static tutti_status group_make(const char *check_calls, tutti_group **group)
{
    static const int32_t all[] = {0, 1, 2};
    const char *const settings[] = {check_calls, NULL};
    return tutti_group_create(
        base, all, ranks, TUTTI_CONFIG(.backend = "nccl", .device = "cuda", .device_index = rank, .settings = settings),
        group, &err);
}

/* The last rank calls something else; then all call the same. */
static void out_of_step(tutti_group *g)
{
    const char *word = rank == ranks - 1 ? "rank 0 called all_reduce" : "called broadcast";
    for (int round = 0; round < 3; round++) {
        const tutti_status status =
            rank == ranks - 1 ? tutti_broadcast(g, &v.tensor, 0, TUTTI_CALL(.error = &err))
                              : tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.error = &err));
        EXPECT(status == TUTTI_MISMATCH && strstr(err.message, word) != NULL);
        EXPECT(err.suspect == (rank == ranks - 1 ? 0 : ranks - 1) && err.sequence == 2 * round + 1);
        vector_fill(&v, rank, round);
        vector_send(&v, NULL);
        EXPECT(cuda.synchronize(NULL) == 0);
        EXPECT_OK(tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.error = &err)));
        vector_fetch(&v, NULL);
        EXPECT(cuda.synchronize(NULL) == 0);
        EXPECT(vector_wrong_sums(&v, ranks, round) == 0);
    }
}

/* The last rank does not call: the other ranks get that error before anything is on the device, and the group fails. */
static void missing(tutti_group *g)
{
    if (rank < ranks - 1) {
        EXPECT(tutti_all_reduce(g, &v.tensor, &v.tensor, TUTTI_SUM, TUTTI_CALL(.timeout_ms = WAIT_MS, .error = &err)) ==
               TUTTI_TIMEOUT);
        EXPECT(strstr(err.message, "before all_reduce (check_calls)") != NULL && err.suspect == ranks - 1);
        EXPECT(tutti_barrier(g, TUTTI_CALL(.error = &err)) == TUTTI_REVOKED);
    }
}

int main(void)
{
    char host[16];
    void *memory = NULL;
    tutti_group *g = NULL;
    rank = rank_of_environment();
    nccl_choose();
    setenv("TUTTI_PLUGIN_PATH", "/nonexistent", 1); /* neither Gloo nor MPI */
    device_choose("delay_us=0");
    base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    ranks = tutti_group_size(base);
    vector_make(base, &v, COUNT);
    EXPECT_OK(group_make("check_calls=on", &g));
    EXPECT((tutti_group_capabilities(g) & TUTTI_CAP_CHECKS_CALLS) != 0);
    out_of_step(g);
    missing(g);
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_group_destroy(g, &err));
    EXPECT_ERROR(TUTTI_MISMATCH, "check_calls", group_make(rank == 0 ? "check_calls=on" : "check_calls=off", &g));
    /* on hosts of their own, between which only NCCL connects */
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    snprintf(host, sizeof(host), "host%d", rank);
    setenv("TUTTI_HOST_ID", host, 1);
    EXPECT_ERROR(TUTTI_UNSUPPORTED, "no engine for host memory", group_make("check_calls=on", &g));
    EXPECT_OK(group_make("check_calls=off", &g));
    EXPECT((tutti_group_capabilities(g) & TUTTI_CAP_HEAP) == 0); /* the ranks could not agree on memory */
    EXPECT_OK(tutti_alloc(g, 4096, &memory, &err));
    EXPECT_OK(tutti_free(g, memory, &err));
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_group_destroy(g, &err));
    vector_free(base, &v);
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
