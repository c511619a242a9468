/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank does not enter a call with a deadline. The other ranks report it in time and name it; the late rank gets
 * REVOKED. Then one rank is early: it times out before the other ranks enter the call. They all get REVOKED, although
 * the records of all ranks arrive. Afterwards the process ends as usual. The program does not use MPI itself, so it
 * runs under every MPI.
 */
#include <stdlib.h>
#include <tutti/tutti.h>

#include "mpi/expect.h"
#include "time_limits.h"

#define ROUNDS 20 /* the late ranks enter at slightly different moments each time */

static void be_early(tutti_group *world)
{
    tutti_group *g = NULL;
    tutti_error error;
    const int64_t one = 1;
    float value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_F32);
    tutti_status status = tutti_group_split(world, 0, rank, NULL, &g, &error);
    expect(status == TUTTI_OK, "split", &error);
    if (rank == 0) {
        status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = 20, .error = &error));
        expect(status == TUTTI_TIMEOUT, "the early rank gives up", &error);
    }
    status = tutti_barrier(world, TUTTI_CALL(.error = &error));
    expect(status == TUTTI_OK, "the world works", &error);
    if (rank != 0) {
        status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error));
        expect(status == TUTTI_REVOKED, "each late rank gets REVOKED", &error);
    }
    status = tutti_barrier(world, TUTTI_CALL(.error = &error));
    expect(status == TUTTI_OK, "the world still works", &error);
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

int main(void)
{
    tutti_group *world = NULL;
    tutti_group *g = NULL;
    tutti_error error;
    const int64_t count = 70000;
    float *values = calloc((size_t)count, sizeof(*values));
    tutti_status status = tutti_init(TUTTI_CONFIG(.backend = "mpi", .timeout_ms = LONG_MS), &world, &error);
    expect(status == TUTTI_OK && values, "init", &error);
    rank = tutti_group_rank(world);
    const int size = tutti_group_size(world);
    status = tutti_group_split(world, 0, rank, NULL, &g, &error);
    expect(status == TUTTI_OK, "split", &error);
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    const int late = size - 1;
    if (rank != late) {
        status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = 300, .error = &error));
        expect(status == TUTTI_TIMEOUT || (status == TUTTI_REVOKED && size > 2), "the deadline passes", &error);
        expect(error.suspect == late && error.scope == TUTTI_SCOPE_GROUP, "the laggard is named", &error);
        status = tutti_barrier(g, TUTTI_CALL(.error = &error));
        expect(status == TUTTI_REVOKED, "the group has failed", &error);
    }
    status = tutti_barrier(world, TUTTI_CALL(.error = &error));
    expect(status == TUTTI_OK, "the world has not", &error);
    if (rank == late && size > 1) {
        status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error));
        expect(status == TUTTI_REVOKED, "the late rank gets REVOKED", &error);
    }
    status = tutti_group_destroy(g, &error);
    expect(status == TUTTI_OK, "destroy", &error);
    for (int i = 0; i < ROUNDS && size > 1; i++) {
        be_early(world);
    }
    tutti_group_destroy(world, NULL);
    free(values);
    tutti_finalize(NULL);
    return 0;
}
