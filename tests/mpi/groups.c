/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups that are made while another one has failed. For three ranks. The program does not use MPI itself.
 *
 *   base   two ranks make a group from one that has failed, and only one of them knows that
 *
 * A second argument is the thread level of MPI to request.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi/expect.h"
#include "time_limits.h"

static void nap(void)
{
    const struct timespec time = {.tv_nsec = 10000000};
    nanosleep(&time, NULL);
}

/* Waits until this rank knows of the failure. */
static void await_failure(tutti_group *g)
{
    tutti_error error = {0};
    while (tutti_group_error(g, &error) == TUTTI_OK && error.status == TUTTI_OK) {
        nap();
    }
}

static void expect_sum(tutti_group *g)
{
    tutti_error error;
    const int64_t one = 1;
    const int32_t size = tutti_group_size(g);
    int32_t value = tutti_group_rank(g) + 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    expect(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error)) == TUTTI_OK, "all_reduce", &error);
    expect(value == size * (size + 1) / 2, "the sum", &error);
}

static tutti_group *make(tutti_group *parent, const int32_t *ranks, int32_t size)
{
    tutti_group *g = NULL;
    tutti_error error;
    expect(tutti_group_create(parent, ranks, size, NULL, &g, &error) == TUTTI_OK, "group_create", &error);
    return g;
}

static void destroy(tutti_group *g)
{
    tutti_error error;
    expect(tutti_group_destroy(g, &error) == TUTTI_OK, "destroy", &error);
}

static void base(tutti_group *world)
{
    static const int32_t two[] = {0, 1};
    tutti_error error;
    const int64_t one = 1;
    int32_t value = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    if (rank == 2) {
        await_failure(world);
        return;
    }
    if (rank == 0) {
        expect(tutti_recv(world, &t, 2, 0, TUTTI_CALL(.timeout_ms = 100, .error = &error), NULL) == TUTTI_TIMEOUT,
               "a message that is not sent", &error);
    }
    tutti_group *g = make(world, two, 2);
    expect_sum(g);
    destroy(g);
}

int main(int argc, char **argv)
{
    char level[60];
    const char *const settings[] = {level, NULL};
    tutti_group *world = NULL;
    tutti_error error;
    const char *what = argc > 1 ? argv[1] : "";
    alarm(LIMIT_S); /* MPI's own waits have no deadline */
    snprintf(level, sizeof(level), "mpi.thread_level=%s", argc > 2 ? argv[2] : "multiple");
    expect(tutti_init(TUTTI_CONFIG(.backend = "mpi", .timeout_ms = LONG_MS, .settings = settings), &world, &error) ==
               TUTTI_OK,
           "init", &error);
    rank = tutti_group_rank(world);
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "barrier", &error);
    if (strcmp(what, "base") == 0) {
        base(world);
    }
    destroy(world);
    return 0;
}
