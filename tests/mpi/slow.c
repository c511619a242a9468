/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of a broadcast are on their way for a long time on rank 1, by double.c, while rank 0 has ended the call. For
 * two ranks. The program does not use MPI itself.
 *
 *   left   rank 0 ends its process meanwhile: the call of rank 1 ends well all the same, and only its next one fails
 *   closed the same with a group that rank 0 destroys
 *   kept   the deadline of rank 1 passes first: the memory that MPI may still write to is not used for anything else
 */
#include <dlfcn.h>
#include <string.h>

#include "memory_reuse.h"
#include "mpi/expect.h"

enum { COUNT = 3000 }; /* more than travels with the call record */

static void broadcast_slowly(tutti_group *g)
{
    static int32_t values[COUNT];
    const int64_t count = COUNT;
    tutti_error error;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    if (rank == 0) {
        values[0] = values[COUNT - 1] = 7;
    } else {
        setenv("DOUBLE_SLOW_MS", "3000", 1);
    }
    const tutti_status status = tutti_broadcast(g, &t, 0, TUTTI_CALL(.error = &error));
    expect(status == TUTTI_OK && values[0] == 7 && values[COUNT - 1] == 7, "the broadcast", &error);
}

static void closed(tutti_group *world)
{
    tutti_group *g = NULL;
    tutti_error error;
    expect(tutti_group_split(world, 0, rank, NULL, &g, &error) == TUTTI_OK, "split", &error);
    expect(tutti_barrier(g, TUTTI_CALL(.error = &error)) == TUTTI_OK, "a call before", &error);
    broadcast_slowly(g);
    if (rank == 1) {
        const tutti_status status = tutti_barrier(g, TUTTI_CALL(.error = &error));
        expect(status == TUTTI_PEER_LEFT && error.suspect == 0, "the next call", &error);
    }
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "the world works", &error);
    expect(tutti_group_destroy(world, &error) == TUTTI_OK, "destroy the world", &error);
}

static void left(tutti_group *world)
{
    tutti_error error;
    broadcast_slowly(world);
    if (rank == 0) {
        exit(0); /* with the group open */
    }
    const tutti_status status = tutti_barrier(world, TUTTI_CALL(.error = &error));
    expect(status == TUTTI_PEER_LEFT && error.suspect == 0, "the next call", &error);
}

static void kept(tutti_group *world)
{
    static int32_t values[2 * COUNT];
    int64_t count = COUNT;
    int64_t stride = 2;
    tutti_group *g = NULL;
    tutti_error error;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    t.strides = &stride;
    expect(tutti_group_split(world, 0, rank, NULL, &g, &error) == TUTTI_OK, "split", &error);
    if (rank == 1) {
        setenv("DOUBLE_SLOW_MS", "3600000", 1);
    }
    const tutti_status status = tutti_broadcast(g, &t, 0, TUTTI_CALL(.timeout_ms = 2000, .error = &error));
    if (rank == 1) {
        expect(status == TUTTI_TIMEOUT, "the deadline", &error);
        void **const memory = dlsym(RTLD_DEFAULT, "double_slow");
        expect(!is_reused(*memory, COUNT * sizeof(int32_t)), "the memory of MPI is used again", &error);
    }
    tutti_group_destroy(g, NULL);
    tutti_group_destroy(world, NULL);
}

int main(int argc, char **argv)
{
    static const char *const settings[] = {"mpi.blocking=never", NULL};
    tutti_group *world = NULL;
    tutti_error error;
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &world, &error) == TUTTI_OK, "init",
           &error);
    rank = tutti_group_rank(world);
    if (argc > 1 && strcmp(argv[1], "left") == 0) {
        left(world);
    } else if (argc > 1 && strcmp(argv[1], "closed") == 0) {
        closed(world);
    } else {
        kept(world);
    }
    return 0;
}
