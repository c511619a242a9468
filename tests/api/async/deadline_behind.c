/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two operations on one lane with the same deadline, for which a rank does not come. The thread of the first one is
 * late, as on a machine with many threads for each CPU: it finds the deadline passed only a while later. Both
 * operations still name the missing rank. The engine is `local` behind a table without asynchronous functions.
 *
 * A thread that is later than a second loses the name, so such an attempt does not count.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "api/async/synchronous_local.h"
#include "api/messages/messages_async.h"
#include "clock.h"

enum { RANKS = 2, DEADLINE_MS = 50, LATE_MS = 150, TOO_LATE_MS = 900, TRIES = 50 };

static const tutti_backend_ops *inner;
static _Atomic int over;
static _Atomic bool counts;       /* the attempt */
static _Atomic int64_t latest_ms; /* from the beginning of an operation to its run */

static tutti_status run_late(void *state, tutti_op *op, tutti_error *error)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000};
    if (op->kind == TUTTI_OP_ALL_REDUCE) {
        nanosleep(&late, NULL);
    }
    const tutti_status status = inner->run(state, op, error);
    const int64_t ms = now_ms() - op->begun_ns / 1000000;
    if (op->kind == TUTTI_OP_ALL_REDUCE && ms > atomic_load(&latest_ms)) {
        atomic_store(&latest_ms, ms);
    }
    return status;
}

/* The one behind gets REVOKED if the timer has not noticed its deadline before the group failed. */
static void end(tutti_work *work, bool is_behind)
{
    tutti_error e;
    const tutti_status status = tutti_work_wait(work, TUTTI_FOREVER);
    EXPECT_OK(tutti_work_error(work, &e));
    if (atomic_load(&latest_ms) < TOO_LATE_MS) {
        EXPECT(status == TUTTI_TIMEOUT || (is_behind && status == TUTTI_REVOKED));
        EXPECT(e.suspect == 1 && strstr(e.message, "rank 1"));
        atomic_store(&counts, true);
    }
    EXPECT_OK(tutti_work_release(work));
}

static void attempt(tutti_group *world, int number)
{
    const int32_t ranks[RANKS] = {0, 1};
    int32_t values[2] = {1, 1};
    tutti_work *work[2] = {NULL, NULL};
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_OK(tutti_group_create(world, ranks, RANKS, TUTTI_CONFIG(.backend = "late"), &g, &e));
    if (tutti_group_rank(world) == 1) {
        EXPECT(reaches(&over, number));
    } else {
        atomic_store(&latest_ms, 0);
        for (int i = 0; i < 2; i++) {
            DLTensor t = tutti_tensor_1d(&values[i], &one, TUTTI_I32);
            EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = DEADLINE_MS), &work[i]));
        }
        end(work[0], false);
        end(work[1], true);
        reach(&over);
    }
    EXPECT_OK(tutti_group_destroy(g, &e));
}

static tutti_status on_ranks(tutti_group *world, void *user)
{
    (void)user;
    for (int number = 1; number <= TRIES && !atomic_load(&counts); number++) {
        attempt(world, number);
    }
    EXPECT(atomic_load(&counts));
    return TUTTI_OK;
}

int main(void)
{
    static tutti_backend_ops ops;
    static tutti_backend late;
    tutti_error e;
    inner = synchronous_local("late", run_late, &late, &ops);
    EXPECT_OK(tutti_backend_register(&late, &e));
    EXPECT_OK(tutti_run_threads(RANKS, on_ranks, NULL, &e));
    EXPECT_OK(tutti_finalize(&e));
    return test_result();
}
