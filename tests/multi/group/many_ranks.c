/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=64,130 timeout=300 trees=release,debug */
/*
 * Worlds of many ranks: more than descriptors fit into one message, and records into one reply. Half of the ranks may
 * open a few files only, so that their descriptors come one by one or a few at a time. The world needs a few
 * descriptors, however many ranks it has, and each rank's contribution reaches each other rank. A reduce by slices
 * gives some ranks no slice at all, and goes through several windows.
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

/* The sum of rank + i over all ranks, for each element i, on `root`. */
static void reduce_to(tutti_group *world, int32_t root)
{
    enum { COUNT = 7001 };
    static int64_t in[COUNT];
    static int64_t out[COUNT];
    const int64_t count = COUNT;
    const int64_t size = tutti_group_size(world);
    const int32_t rank = tutti_group_rank(world);
    for (int64_t i = 0; i < count; i++) {
        in[i] = rank + i;
        out[i] = -1;
    }
    DLTensor input = tutti_tensor_1d(in, &count, TUTTI_I64);
    DLTensor output = tutti_tensor_1d(out, &count, TUTTI_I64);
    EXPECT_OK(tutti_reduce(world, &input, rank == root ? &output : NULL, TUTTI_SUM, root, TUTTI_CALL(.error = &err)));
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += out[i] != (rank == root ? size * (size - 1) / 2 + size * i : -1);
    }
    EXPECT(wrong == 0);
}

int main(void)
{
    static const char *const settings[] = {"engine.reduce_sliced_bytes=0", "engine.window=16384", NULL};
    static int64_t values[MOST];
    tutti_group *world;
    struct rlimit before;
    const char *rank = getenv("RANK");
    const int lowest = lowest_free();
    const bool tight = rank && atoi(rank) % 2 == 1;
    EXPECT(!tight || leave_descriptors(FEW, &before));
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "shm", .settings = settings), &world, &err));
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
    reduce_to(world, 0);
    reduce_to(world, size - 1);
    EXPECT_OK(tutti_group_destroy(world, &err));
    return failures != 0;
}
