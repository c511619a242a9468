/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors of several chunks over hier, with MPI at the level single between the hosts. Under double.c, which allows one
 * thread in MPI. The program does not use MPI itself.
 */
#include <tutti/backend.h>

#include "mpi/expect.h"

enum { COUNT = 1 << 18 };

static tutti_group *world;
static int size;

static int32_t value(int from, int to, int64_t i)
{
    return (int32_t)(i * 7 + from * 1000 + to);
}

static void sum(void)
{
    static int32_t values[COUNT];
    const int64_t count = COUNT;
    tutti_error error;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    for (int64_t i = 0; i < COUNT; i++) {
        values[i] = value(rank, 0, i);
    }
    expect(tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)) == TUTTI_OK, "all_reduce", &error);
    for (int64_t i = 0; i < COUNT; i++) {
        int32_t expected = 0;
        for (int r = 0; r < size; r++) {
            expected += value(r, 0, i);
        }
        expect(values[i] == expected, "the sum is right", &error);
    }
}

static void exchange(void)
{
    const int64_t count = (int64_t)size * COUNT;
    int32_t *from = malloc((size_t)count * sizeof(*from));
    int32_t *to = malloc((size_t)count * sizeof(*to));
    tutti_error error = {.status = TUTTI_NO_MEMORY};
    expect(from && to, "memory", &error);
    for (int64_t i = 0; i < count; i++) {
        from[i] = value(rank, (int)(i / COUNT), i % COUNT);
    }
    DLTensor in = tutti_tensor_1d(from, &count, TUTTI_I32);
    DLTensor out = tutti_tensor_1d(to, &count, TUTTI_I32);
    expect(tutti_all_to_all(world, &in, &out, 0, TUTTI_CALL(.error = &error)) == TUTTI_OK, "all_to_all", &error);
    for (int64_t i = 0; i < count; i++) {
        expect(to[i] == value((int)(i / COUNT), rank, i % COUNT), "the part is right", &error);
    }
    free(from);
    free(to);
}

int main(void)
{
    static const char *const settings[] = {"hier.outer=mpi", "hier.chunk=64K", "mpi.thread_level=single", NULL};
    tutti_error error;
    expect(tutti_init(TUTTI_CONFIG(.backend = "hier", .settings = settings), &world, &error) == TUTTI_OK, "init",
           &error);
    rank = tutti_group_rank(world);
    size = tutti_group_size(world);
    expect((tutti_group_capabilities(world) & TUTTI_CAP_OWN_THREAD) != 0, "TUTTI_CAP_OWN_THREAD is set", &error);
    for (int i = 0; i < 3; i++) {
        sum();
        exchange();
    }
    tutti_group_destroy(world, NULL);
    tutti_finalize(NULL);
    return 0;
}
