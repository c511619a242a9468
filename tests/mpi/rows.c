/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks gather columns: each has one byte of each row. The arguments are numbers of rows, more than an int can
 * hold. MPI's double transfers nothing, so the tensors take no memory. The program does not use MPI itself.
 */
#include <sys/mman.h>

#include "mpi/expect.h"

static DLTensor columns(int64_t shape[2])
{
    const size_t bytes = (size_t)shape[0] * (size_t)shape[1];
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    expect(data != MAP_FAILED, "address space", &(tutti_error){0});
    return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLUInt, 8, 1}, .shape = shape};
}

int main(int argc, char **argv)
{
    static const char *const settings[] = {"mpi.blocking=never", NULL};
    tutti_group *world = NULL;
    tutti_error error;
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &world, &error) == TUTTI_OK, "init",
           &error);
    rank = tutti_group_rank(world);
    for (int i = 1; i < argc; i++) {
        int64_t one[] = {strtoll(argv[i], NULL, 10), 1};
        int64_t two[] = {one[0], 2};
        DLTensor in = columns(one);
        DLTensor out = columns(two);
        expect(tutti_gather(world, &in, rank == 0 ? &out : NULL, 1, 0, TUTTI_CALL(.error = &error)) == TUTTI_OK,
               "gather", &error);
    }
    expect(tutti_group_destroy(world, &error) == TUTTI_OK, "destroy", &error);
    return 0;
}
