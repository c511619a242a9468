/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=120 cpus=2 trees=release,debug */
/*
 * A rank that the library refuses while a group on NCCL is made. The library does not tell the other ranks, which wait
 * for its communicator; they get that rank's error long before the deadline.
 */
#include "clock.h"
#include "nccl_support.h"
#include "time_limits.h"

int main(void)
{
    static const int32_t all[] = {0, 1, 2};
    const int rank = rank_of_environment();
    tutti_group *g = NULL;
    nccl_choose();
    device_choose("delay_us=0");
    if (rank == 1) {
        setenv("TUTTI_DOUBLE_NCCL", "fail=CommInitRankConfig:1=2", 1);
    }
    tutti_group *base = device_open(TUTTI_CONFIG(.backend = "shm", .device = "cuda", .device_index = rank));
    const tutti_config *config =
        TUTTI_CONFIG(.backend = "nccl", .device = "cuda", .device_index = rank, .timeout_ms = LONG_MS);
    const int64_t begun = now_ms();
    const tutti_status status = tutti_group_create(base, all, 3, config, &g, &err);
    EXPECT(status == TUTTI_BACKEND && (rank == 1 || err.suspect == 1) && !g &&
           strstr(err.message, "CommInitRankConfig") != NULL);
    EXPECT(now_ms() - begun < LONG_MS / 2);
    EXPECT_OK(tutti_barrier(base, TUTTI_CALL(.error = &err)));
    EXPECT_OK(tutti_group_destroy(base, &err));
    return failures > 0;
}
