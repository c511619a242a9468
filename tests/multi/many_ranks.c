/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=64,130 timeout=300 trees=release,debug */
/*
 * Worlds of many ranks: more than descriptors fit into one message, and records into one reply. Half of the ranks may
 * open a few files only, so that their descriptors come one by one or a few at a time. The world needs a few
 * descriptors, however many ranks it has, and each rank's contribution reaches each other rank.
 */
#include <stdlib.h>

#include "descriptors.h"
#include "multi/expect.h"

#define MOST  160
#define FEW   40 /* descriptors, for half of the ranks */
#define EXTRA 12 /* that a world keeps */

/* The lowest number that is free. */
static int lowest_free(void)
{
    const int fd = dup(STDERR_FILENO);
    if (fd >= 0) {
        close(fd);
    }
    return fd;
}

int main(void)
{
    static int64_t values[MOST];
    tutti_group *world;
    struct rlimit before;
    const char *rank = getenv("RANK");
    const int lowest = lowest_free();
    const bool tight = rank && atoi(rank) % 2 == 1;
    EXPECT(!tight || leave_descriptors(FEW, &before));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "shm"), &world, &err));
    EXPECT(!tight || setrlimit(RLIMIT_NOFILE, &before) == 0);
    EXPECT(lowest_free() <= lowest + EXTRA);
    const int32_t size = tutti_group_size(world);
    const int64_t count = size;
    const int64_t one = 1;
    EXPECT(size <= MOST);
    int64_t own = (int64_t)1 << (tutti_group_rank(world) % 60) | tutti_group_rank(world);
    DLTensor in = tutti_tensor_1d(&own, &one, TUTTI_I64);
    DLTensor all = tutti_tensor_1d(values, &count, TUTTI_I64);
    EXPECT_OK(tutti_all_gather(world, &in, &all, 0, TUTTI_CALL(.error = &err)));
    for (int32_t r = 0; r < size; r++) {
        EXPECT(values[r] == ((int64_t)1 << (r % 60) | r));
    }
    EXPECT_OK(tutti_group_destroy(world, &err));
    return failures != 0;
}
