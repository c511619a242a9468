/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of this folder as a job, which tests/api/on_backend starts: its ranks are processes on another backend. */
#ifndef TESTS_API_JOB_H
#define TESTS_API_JOB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

#include "time_limits.h"

/* The backend of this job; NULL: the program runs alone, and its ranks are threads. */
static inline const char *job_backend(void)
{
    return getenv("TUTTI_TEST_BACKEND");
}

/* Runs the function on a group of the first `count` ranks of the job; the other ranks wait at the barrier. */
static inline tutti_status job_run(int32_t count, tutti_rank_function function, void *user, tutti_error *error)
{
    enum { MOST = 16 };
    static tutti_group *world;
    tutti_group *group = NULL;
    int32_t members[MOST];
    tutti_status status = world ? TUTTI_OK : tutti_init(NULL, &world, error);
    if (status != TUTTI_OK || count > MOST || tutti_group_size(world) < count) {
        fprintf(stderr, "a job of %d ranks is wanted: %s\n", count,
                status == TUTTI_OK ? "it is smaller" : error->message);
        exit(1); /* the launcher ends the other ranks */
    }
    if (tutti_group_rank(world) < count) {
        for (int32_t i = 0; i < count; i++) {
            members[i] = i;
        }
        status = tutti_group_create(world, members, count, NULL, &group, error);
        if (status == TUTTI_OK && strcmp(tutti_group_backend(group), job_backend()) != 0) {
            fprintf(stderr, "the group is on backend %s\n", tutti_group_backend(group));
            exit(1);
        }
        status = status == TUTTI_OK ? function(group, user) : status;
        tutti_group_destroy(group, NULL); /* some functions have destroyed it, or made it fail */
    }
    const tutti_status met = tutti_barrier(world, TUTTI_CALL(.timeout_ms = 1000 * LIMIT_S, .error = error));
    return status == TUTTI_OK ? met : status;
}

#endif
