/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that calls tutti_group_split when the others have given up, for threads and for processes. */
#ifndef TESTS_LATE_SPLIT_H
#define TESTS_LATE_SPLIT_H

#include <stdio.h>
#include <string.h>
#include <tutti/tutti.h>

#include "time_limits.h"

#define GIVE_UP_MS 100

static inline int late_split_failed(const tutti_group *group, int line, const char *what, const tutti_error *e)
{
    fprintf(stderr, "line %d, group %p: %s: %s \"%s\"\n", line, (const void *)group, what, tutti_status_name(e->status),
            e->message);
    return 1;
}

/* The last rank of the group calls when rank 0 has given up `missed` splits. Then it fails as often, without a wait for
 * ranks that have gone on, and the next split works. No rank waits for another one in between. `color` is that of the
 * last rank, 0 that of the others. Returns how many expectations have failed. */
static inline int late_split(tutti_group *world, int32_t color, int missed)
{
    const int32_t rank = tutti_group_rank(world);
    const int32_t late = tutti_group_size(world) - 1;
    const int32_t own = rank == late ? color : 0;
    int64_t one = 1;
    int32_t word = 0;
    int failed = 0;
    tutti_group *g = NULL;
    tutti_error e;
    DLTensor t = tutti_tensor_1d(&word, &one, TUTTI_I32);
    if (rank == late && tutti_recv(world, &t, 0, 1, TUTTI_CALL(.error = &e, .timeout_ms = LONG_MS), NULL) != TUTTI_OK) {
        failed += late_split_failed(world, __LINE__, "recv", &e);
    }
    for (int i = 0; i < missed; i++) {
        const int64_t limit_ms = rank == late ? LONG_MS : GIVE_UP_MS;
        const tutti_status status = tutti_group_split(world, own, rank, TUTTI_CONFIG(.timeout_ms = limit_ms), &g, &e);
        if (status != TUTTI_TIMEOUT || !strstr(e.message, "group_split waited 100 ms for rank ")) {
            failed += late_split_failed(world, __LINE__, "a split that a rank has given up", &e);
        }
    }
    if (rank == 0 && tutti_send(world, &t, late, 1, TUTTI_CALL(.error = &e, .timeout_ms = LONG_MS)) != TUTTI_OK) {
        failed += late_split_failed(world, __LINE__, "send", &e);
    }
    if (tutti_group_split(world, own, rank, TUTTI_CONFIG(.timeout_ms = LONG_MS), &g, &e) != TUTTI_OK) {
        return failed + late_split_failed(world, __LINE__, "the next split", &e);
    }
    if ((g == NULL) != (own == -1) || (g && tutti_barrier(g, TUTTI_CALL(.error = &e)) != TUTTI_OK)) {
        failed += late_split_failed(world, __LINE__, "the group of the next split", &e);
    }
    tutti_group_destroy(g, NULL);
    return failed;
}

/* The same colour, another one, none; and more splits than the ring of entries has places. */
static inline int late_splits(tutti_group *world)
{
    return late_split(world, 0, 1) + late_split(world, 1, 1) + late_split(world, -1, 1) + late_split(world, 0, 10);
}

#endif
