/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups that are made while another one has failed, or after one was closed. For three ranks. The program does not use
 * MPI itself.
 *
 *   base     two ranks make a group from one that has failed, and only one of them knows that
 *   unread   a message that no rank has received when its group is closed does not arrive in a later group; and more
 *            groups are made and closed than MPI has communicators at a time
 *   failed   a rank needs a rank that has closed the group, which fails it: the other rank's next group does not notice
 *   left     the same with a rank that ends its process
 *
 * A second argument is the thread level of MPI to request.
 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi/expect.h"
#include "time_limits.h"

#define LANES  16
#define ROUNDS 125 /* of groups with a communicator for each lane and one more; MPICH has 2048 at a time */

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
    expect(tutti_group_create(parent, ranks, size, TUTTI_CONFIG(.lanes = LANES), &g, &error) == TUTTI_OK,
           "group_create", &error);
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

/* Rank 0 sends a message in each group, and rank 1 receives that of every second one. */
static void unread(tutti_group *world)
{
    static const int32_t two[] = {0, 1};
    tutti_error error;
    const int64_t one = 1;
    int32_t value = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    for (int32_t round = 0; round < ROUNDS && rank < 2; round++) {
        tutti_group *g = make(world, two, 2);
        value = rank == 0 ? round : -1;
        if (rank == 0) {
            expect(tutti_send(g, &t, 1, 7, TUTTI_CALL(.error = &error)) == TUTTI_OK, "send", &error);
        } else if (round % 2 == 1) {
            expect(tutti_recv(g, &t, 0, 7, TUTTI_CALL(.error = &error), NULL) == TUTTI_OK, "recv", &error);
            expect(value == round, "the message of this group", &error);
        }
        destroy(g);
    }
}

/* Rank 0 calls all_reduce on a group that rank 1 has closed. */
static void failed(tutti_group *world)
{
    static const int32_t first[] = {0, 1};
    static const int32_t second[] = {2, 1};
    tutti_error error;
    const int64_t one = 1;
    int32_t value = 1000;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_group *g = rank < 2 ? make(world, first, 2) : NULL;
    if (rank == 1) {
        destroy(g);
    }
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "barrier", &error);
    if (rank == 0) {
        const tutti_call *call = TUTTI_CALL(.timeout_ms = 10000, .error = &error);
        expect(tutti_all_reduce(g, &t, &t, TUTTI_SUM, call) == TUTTI_PEER_LEFT, "the closed group", &error);
        expect(error.suspect == 1 && error.scope == TUTTI_SCOPE_GROUP, "the rank that has closed it", &error);
        destroy(g);
    }
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "barrier", &error);
    if (rank > 0) {
        g = make(world, second, 2);
        for (int i = 0; i < 3; i++) {
            expect_sum(g);
        }
        destroy(g);
    }
}

static void left(tutti_group *world)
{
    static const int32_t first[] = {0, 1};
    static const int32_t second[] = {2, 1};
    tutti_error error;
    const int64_t one = 1;
    int32_t value = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    if (rank < 2) {
        tutti_group *other = make(world, first, 2);
        tutti_group *g = make(world, first, 2);
        expect_sum(g);
        if (rank == 0) {
            exit(0); /* with its groups open */
        }
        destroy(g);
        expect(tutti_recv(other, &t, 0, 0, TUTTI_CALL(.error = &error), NULL) == TUTTI_PEER_LEFT, "rank 0 has left",
               &error);
        destroy(other);
    }
    tutti_group *g = make(world, second, 2);
    for (int i = 0; i < 3; i++) {
        expect_sum(g);
    }
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
    } else if (strcmp(what, "unread") == 0) {
        unread(world);
    } else if (strcmp(what, "failed") == 0) {
        failed(world);
    } else {
        left(world);
    }
    destroy(world);
    return 0;
}
