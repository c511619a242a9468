/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last rank leaves, or does not enter a call; the argument selects one. No rank waits for ever. Every rank names
 * the rank that has left, whichever host it was on.
 */
#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

#include "time_limits.h"

enum { COUNT = 3 << 20 }; /* several chunks */

static int complain(int rank, const char *what, tutti_status status, const tutti_error *e)
{
    fprintf(stderr, "rank %d: %s: got %s \"%s\" suspect %d\n", rank, what, tutti_status_name(status), e->message,
            e->suspect);
    return 1;
}

/* A barrier in another group, so that no rank ends while other ranks still check their errors. */
static int wait_for_others(tutti_group *late, int rank)
{
    tutti_error e;
    const tutti_status status = tutti_barrier(late, TUTTI_CALL(.error = &e));
    return status == TUTTI_OK ? 0 : complain(rank, "the barrier behind", status, &e);
}

static tutti_status sum(tutti_group *g, float *data, int64_t timeout_ms, tutti_error *e)
{
    const int64_t count = COUNT;
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_F32);
    return tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = timeout_ms, .error = e));
}

int main(int argc, char **argv)
{
    const int leaves = argc == 2 && strcmp(argv[1], "left") == 0;
    tutti_group *world = NULL;
    tutti_group *other = NULL;
    tutti_error e = {0};
    static float data[COUNT];
    tutti_status status = tutti_init(NULL, &world, &e);
    if (status != TUTTI_OK) {
        return complain(-1, "init", status, &e);
    }
    const int rank = tutti_group_rank(world);
    const int last = tutti_group_size(world) - 1;
    if ((status = tutti_group_split(world, 0, rank, NULL, &other, &e)) != TUTTI_OK) {
        return complain(rank, "split", status, &e);
    }
    if ((status = sum(world, data, 0, &e)) != TUTTI_OK) {
        return complain(rank, "the first all_reduce", status, &e);
    }
    int failed = 0;
    if (rank != last) {
        status = sum(world, data, leaves ? LONG_MS : 1000, &e);
        const int good = leaves ? (status == TUTTI_PEER_LEFT && e.suspect == last) : status >= TUTTI_TIMEOUT;
        failed = good ? 0 : complain(rank, "the last rank is missing", status, &e);
        tutti_error later;
        const tutti_status again = sum(world, data, LONG_MS, &later);
        failed |= again == TUTTI_REVOKED ? 0 : complain(rank, "after that", again, &later);
    } else if (leaves) {
        tutti_group_destroy(world, NULL);
    }
    failed |= wait_for_others(other, rank);
    tutti_group_destroy(other, NULL);
    if (rank != last || !leaves) {
        tutti_group_destroy(world, NULL);
    }
    return failed;
}
