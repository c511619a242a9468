/* SPDX-License-Identifier: BSD-3-Clause */
/* A limit of file sizes (ulimit -f) below what shared memory needs: an error on all ranks, and no signal. */
#include "init_processes.h"
#include "time_limits.h"

#include <sys/resource.h>

#define RANKS 2

static char store[64];

static void limited(int32_t rank, void *user)
{
    const struct rlimit small = {.rlim_cur = 8 << 20, .rlim_max = RLIM_INFINITY};
    tutti_group *g = NULL;
    tutti_error e;
    (void)user;
    EXPECT(rank != 0 || setrlimit(RLIMIT_FSIZE, &small) == 0);
    const tutti_status status = tutti_init(
        TUTTI_CONFIG(.backend = "shm", .store = store, .rank = rank, .world_size = RANKS, .timeout_ms = LONG_MS), &g,
        &e);
    test_status(__FILE__, __LINE__, "init", status, TUTTI_NO_RESOURCE, &e, "ulimit -f");
    EXPECT(!g);
}

int main(void)
{
    test_stand_alone();
    snprintf(store, sizeof(store), "unix:file-limit-%ld", (long)getpid());
    test_processes("file limit", RANKS, limited, NULL);
    return test_result();
}
