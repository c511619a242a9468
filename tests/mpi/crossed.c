/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two threads of each rank create groups of the same ranks at the same time, and each rank in its own order. No rank
 * deadlocks, at any thread level of MPI; the argument is the level to request. The program does not use MPI itself.
 */
#include <pthread.h>
#include <stdio.h>
#include <tutti/tutti.h>

#include "mpi/expect.h"
#include "time_limits.h"

#define ROUNDS 12

static tutti_group *world;
static pthread_barrier_t together;

/* Creates groups of the world's ranks in this order. No other thread of the rank creates them. */
static void make_groups(const int32_t *order, int32_t size)
{
    for (int round = 0; round < ROUNDS; round++) {
        tutti_group *g = NULL;
        tutti_error error;
        int32_t value = 1;
        const int64_t one = 1;
        DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
        pthread_barrier_wait(&together);
        tutti_status status = tutti_group_create(world, order, size, NULL, &g, &error);
        expect(status == TUTTI_OK, "group_create", &error);
        status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error));
        expect(status == TUTTI_OK && value == size, "all_reduce", &error);
        status = tutti_group_destroy(g, &error);
        expect(status == TUTTI_OK, "destroy", &error);
    }
}

static void *make_reversed(void *unused)
{
    int32_t order[64];
    const int32_t size = tutti_group_size(world);
    (void)unused;
    for (int32_t r = 0; r < size; r++) {
        order[r] = size - 1 - r;
    }
    make_groups(order, size);
    return NULL;
}

int main(int argc, char **argv)
{
    char level[60];
    const char *const settings[] = {level, NULL};
    int32_t order[64];
    tutti_error error = {0};
    pthread_t thread;
    snprintf(level, sizeof(level), "mpi.thread_level=%s", argc > 1 ? argv[1] : "multiple");
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .timeout_ms = LONG_MS, .settings = settings), &world, &error) ==
               TUTTI_OK,
           "init", &error);
    rank = tutti_group_rank(world);
    const int32_t size = tutti_group_size(world);
    expect(size <= 64 && pthread_barrier_init(&together, NULL, 2) == 0 &&
               pthread_create(&thread, NULL, make_reversed, NULL) == 0,
           "a second thread", &error);
    for (int32_t r = 0; r < size; r++) {
        order[r] = r;
    }
    make_groups(order, size);
    pthread_join(thread, NULL);
    expect(tutti_group_destroy(world, &error) == TUTTI_OK, "destroy", &error);
    tutti_finalize(NULL);
    return 0;
}
