/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two operations on one lane with the same deadline, for which a rank does not come. The thread of the first one is
 * late, as on a machine with many threads for each CPU: it finds the deadline passed only a while later. Both operations
 * still name the missing rank. The engine is `local` behind a table without asynchronous functions.
 */
#include <string.h>
#include <time.h>
#include <tutti/backend.h>

#include "api/messages/messages_async.h"

enum { RANKS = 2, DEADLINE_MS = 50, LATE_MS = 150 };

static const tutti_backend_ops *inner;
static _Atomic int over;

static tutti_status run_late(void *state, tutti_op *op, tutti_error *error)
{
    const struct timespec late = {.tv_nsec = LATE_MS * 1000000};
    if (op->kind == TUTTI_OP_ALL_REDUCE) {
        nanosleep(&late, NULL);
    }
    return inner->run(state, op, error);
}

static void names_missing(tutti_work *work)
{
    tutti_error e;
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_TIMEOUT);
    EXPECT_OK(tutti_work_error(work, &e));
    EXPECT(e.suspect == 1 && strstr(e.message, "rank 1"));
    EXPECT_OK(tutti_work_release(work));
}

static tutti_status on_ranks(tutti_group *world, void *user)
{
    const int32_t ranks[RANKS] = {0, 1};
    int32_t values[2] = {1, 1};
    tutti_work *work[2] = {NULL, NULL};
    tutti_group *g = NULL;
    tutti_error e;
    (void)user;
    EXPECT_OK(tutti_group_create(world, ranks, RANKS, TUTTI_CONFIG(.backend = "late"), &g, &e));
    if (tutti_group_rank(world) == 1) {
        EXPECT(reaches(&over, 1));
    } else {
        for (int i = 0; i < 2; i++) {
            DLTensor t = tutti_tensor_1d(&values[i], &one, TUTTI_I32);
            EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = DEADLINE_MS), &work[i]));
        }
        names_missing(work[0]);
        names_missing(work[1]);
        reach(&over);
    }
    EXPECT_OK(tutti_group_destroy(g, &e));
    return TUTTI_OK;
}

int main(void)
{
    tutti_backend late = *tutti_backend_find("local");
    inner = late.ops;
    tutti_backend_ops ops = *inner;
    ops.run = run_late;
    ops.start = NULL;
    ops.poll = NULL;
    ops.finish = NULL;
    late.name = "late";
    late.priority = -1;
    late.capabilities = TUTTI_CAP_ONE_PROCESS;
    late.ops = &ops;
    tutti_error e;
    EXPECT_OK(tutti_backend_register(&late, &e));
    EXPECT_OK(tutti_run_threads(RANKS, on_ranks, NULL, &e));
    EXPECT_OK(tutti_finalize(&e));
    return test_result();
}
