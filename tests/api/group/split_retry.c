/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A split for which a rank comes too late, or not at all: it ends at the deadline of its configuration, and the next
 * splits work. Ranks are threads.
 */
#include <stdatomic.h>

#include "api/check.h"
#include "clock.h"
#include "late_split.h"
#include "time_limits.h"

enum { RANKS = 2, SHORT_MS = 300 };

static _Atomic int step;

static void await_step(int number)
{
    EXPECT(await_count(&step, number));
}

static tutti_status split(tutti_group *world, int64_t timeout_ms, tutti_group **g, tutti_error *error)
{
    return tutti_group_split(world, 0, tutti_group_rank(world), TUTTI_CONFIG(.timeout_ms = timeout_ms), g, error);
}

/* Rank 0 gives up before rank 1 has begun. Rank 1 finds rank 0's entry and then waits in vain for rank 0. */
static void first_attempt(tutti_group *world)
{
    tutti_group *g = NULL;
    tutti_error e;
    if (tutti_group_rank(world) == 0) {
        EXPECT(split(world, SHORT_MS, &g, &e) == TUTTI_TIMEOUT && e.suspect == 1);
        atomic_fetch_add(&step, 1);
    } else {
        await_step(1);
        EXPECT(split(world, SHORT_MS, &g, &e) != TUTTI_OK);
    }
    EXPECT(!g);
}

static tutti_status on_ranks(tutti_group *world, void *user)
{
    tutti_group *g = NULL;
    tutti_error e;
    (void)user;
    first_attempt(world);
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_ERROR(&e, TUTTI_OK, "", split(world, LONG_MS, &g, &e));
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_group_destroy(g, &e));
    /* a configuration that is refused has no effect on the other ranks, nor on this rank's next split */
    if (tutti_group_rank(world) == 1) {
        static const char *const wrong[] = {"no.such.key=1", NULL};
        EXPECT(tutti_group_split(world, 0, 1, TUTTI_CONFIG(.settings = wrong), &g, &e) == TUTTI_INVALID_ARGUMENT);
    }
    EXPECT_ERROR(&e, TUTTI_OK, "", split(world, LONG_MS, &g, &e));
    EXPECT_OK(tutti_group_destroy(g, &e));
    EXPECT(late_splits(world) == 0);
    return TUTTI_OK;
}

int main(void)
{
    tutti_error e;
    EXPECT_OK(tutti_run_threads(RANKS, on_ranks, NULL, &e));
    EXPECT_OK(tutti_finalize(&e));
    return test_result();
}
