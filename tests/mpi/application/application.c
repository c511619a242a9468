/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program that also uses Tutti. It starts MPI, hands over a communicator with its ranks in reverse order, uses
 * that and MPI_COMM_WORLD before, between and after Tutti's calls, and finalises MPI itself.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

#define COUNT 1000

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(int holds, const char *what)
{
    if (!holds) {
        fail(what, "it does not");
    }
}

static void own_sum(MPI_Comm comm)
{
    int size = 0;
    int one = 1;
    int sum = 0;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    expect(sum == size, "the program's own communicator works");
}

static void tutti_sum(tutti_group *g, MPI_Comm comm)
{
    static float values[COUNT];
    const int64_t count = COUNT;
    const int size = tutti_group_size(g);
    tutti_error error;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(tutti_group_rank(g) + i);
    }
    if (tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)) != TUTTI_OK) {
        fail("all_reduce", error.message);
    }
    for (int i = 0; i < COUNT; i++) {
        expect(values[i] == (float)(size * i + size * (size - 1) / 2), "the sum is right");
    }
    own_sum(comm);
}

int main(int argc, char **argv)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    const int which = argc > 1 && strcmp(argv[1], "multiple") == 0 ? 2 : argc > 1 && strcmp(argv[1], "serialized") == 0;
    int level = 0;
    int rank = 0;
    int size = 0;
    tutti_group *g = NULL;
    tutti_group *part = NULL;
    tutti_error error;
    MPI_Comm reversed;
    if (which == 0) {
        MPI_Init(&argc, &argv);
    } else {
        MPI_Init_thread(&argc, &argv, levels[which], &level);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
    own_sum(reversed);
    if (tutti_init(TUTTI_CONFIG(.backend = "mpi", .native_communicator = &reversed), &g, &error) != TUTTI_OK) {
        fail("tutti_init", error.message);
    }
    expect(tutti_group_rank(g) == rank && tutti_group_size(g) == size, "ranks are those of the launcher");
    expect(strcmp(tutti_group_backend(g), "mpi") == 0, "the backend is mpi");
    tutti_sum(g, reversed);
    MPI_Comm copy;
    int copy_rank = -1;
    const MPI_Comm *native = tutti_group_native_communicator(g);
    expect(native != NULL, "the group has a communicator");
    MPI_Comm_dup(*native, &copy);
    MPI_Comm_rank(copy, &copy_rank);
    expect(copy_rank == rank, "its ranks are Tutti's");
    own_sum(copy);
    MPI_Comm_free(&copy);
    if (tutti_group_split(g, rank % 2, -rank, NULL, &part, &error) != TUTTI_OK) {
        fail("tutti_group_split", error.message);
    }
    tutti_sum(part, MPI_COMM_WORLD);
    expect(tutti_group_destroy(part, &error) == TUTTI_OK, "the part can be destroyed");
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "the group can be destroyed");
    own_sum(reversed);
    /* again, on MPI_COMM_WORLD: MPI still runs, and Tutti does not start it twice */
    if (tutti_init(TUTTI_CONFIG(.backend = "mpi"), &g, &error) != TUTTI_OK) {
        fail("the second tutti_init", error.message);
    }
    tutti_sum(g, reversed);
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "the second group can be destroyed");
    tutti_finalize(NULL);
    own_sum(MPI_COMM_WORLD);
    MPI_Comm_free(&reversed);
    MPI_Finalize();
    /* a group cannot be opened any more, and the error says why */
    const tutti_status status = tutti_init(TUTTI_CONFIG(.backend = "mpi"), &g, &error);
    /* PEER_LEFT: this rank had no CPU for the 5 s in which rank 0 waits before it leaves */
    if (status != TUTTI_NOT_AVAILABLE && !(size > 1 && status == TUTTI_PEER_LEFT)) {
        fprintf(stderr, "FAILED: tutti_init after the end of MPI gives %s: %s\n", tutti_status_name(status),
                error.message);
        return 1; /* MPI_Abort would need MPI */
    }
    if (strstr(error.message, "finalized") == NULL && size == 1) {
        fprintf(stderr, "FAILED: the error does not name the reason: %s\n", error.message);
        return 1;
    }
    return 0;
}
