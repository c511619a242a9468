/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * summing BACKEND DEADLINE_MS [RANK,...]: a rank that reduces with the other ranks until a call fails, as it must when
 * a host is lost. The ranks listed have three times that deadline.
 *
 * Rank 0 prints "all are summing" when all ranks do. At the end each rank prints
 *     [RANK] ended STATUS after MS ms: SENTENCE
 * with the time that the failed call took. A failed call fails the group. The exit code is 0 if everything else went
 * well, else 1.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "clock.h"
#include "time_limits.h"

enum { COUNT = 3 << 18 }; /* 3 MiB: chunks that overlap */

static int fail(const char *what, const tutti_error *e)
{
    printf("failed: %s: %s\n", what, e->message);
    return 1;
}

static bool is_listed(const char *list, int rank)
{
    for (char *end = NULL; *list; list = end + (*end == ',')) {
        if (strtol(list, &end, 10) == rank || end == list) {
            return end != list;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    static float data[COUNT];
    const int64_t count = COUNT;
    DLTensor t = tutti_tensor_1d(data, &count, TUTTI_F32);
    tutti_group *world = NULL;
    tutti_error e = {0};
    if (argc != 3 && argc != 4) {
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (tutti_init(TUTTI_CONFIG(.backend = argv[1], .timeout_ms = LONG_MS), &world, &e) != TUTTI_OK) {
        return fail("init", &e);
    }
    const int rank = tutti_group_rank(world);
    if (tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)) != TUTTI_OK ||
        tutti_barrier(world, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        return fail("the beginning", &e);
    }
    if (rank == 0) {
        printf("all are summing\n");
    }
    const int deadline_ms = atoi(argv[2]) * (argc == 4 && is_listed(argv[3], rank) ? 3 : 1);
    int64_t begin = 0;
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        begin = now_ms();
        status = tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = deadline_ms, .error = &e));
    }
    printf("[%d] ended %s after %" PRId64 " ms: %s\n", rank, tutti_status_name(status), now_ms() - begin, e.message);
    if (tutti_group_destroy(world, &e) != TUTTI_OK || tutti_finalize(&e) != TUTTI_OK) {
        return fail("the end", &e);
    }
    return 0;
}
