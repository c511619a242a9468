/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank creates groups of itself only, as communicators of MPI without the other ranks: one before the world, one
 * while the world is open. The first one starts MPI, on all ranks.
 */
#include <stdint.h>
#include <tutti/tutti.h>

#include "mpi/expect.h"
#include "time_limits.h"

static tutti_error error;

static void sum(tutti_group *g, const char *what)
{
    const int64_t one = 1;
    const int32_t size = tutti_group_size(g);
    int32_t value = tutti_group_rank(g) + 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    expect(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)) == TUTTI_OK, what, &error);
    expect(value == size * (size + 1) / 2, what, &error);
}

static tutti_group *alone(int64_t timeout_ms)
{
    tutti_group *g = NULL;
    const tutti_config *config = TUTTI_CONFIG(.world_size = 1, .backend = "mpi", .timeout_ms = timeout_ms);
    expect(tutti_init(config, &g, &error) == TUTTI_OK, "a group of one rank", &error);
    expect(tutti_group_size(g) == 1 && tutti_group_native_communicator(g) != NULL, "its communicator", &error);
    sum(g, "a sum of one rank");
    return g;
}

int main(void)
{
    tutti_group *world = NULL;
    tutti_group *before = alone(0);
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .timeout_ms = LONG_MS), &world, &error) == TUTTI_OK, "the world",
           &error);
    rank = tutti_group_rank(world);
    expect(tutti_group_size(world) == 3, "the size of the world", &error);
    tutti_group *beside = alone(LONG_MS);
    sum(world, "a sum of the world");
    sum(beside, "a sum beside the world");
    expect(tutti_group_destroy(beside, &error) == TUTTI_OK, "destroy", &error);
    sum(before, "a sum of the first group");
    expect(tutti_group_destroy(before, &error) == TUTTI_OK, "destroy", &error);
    sum(world, "a sum afterwards");
    expect(tutti_finalize(&error) == TUTTI_OK, "finalize", &error);
    return 0;
}
