/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bad arguments of events and deadlines, one case each: the status, and a message that names the argument. The group
 * still works.
 */
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/check.h"
#include "start_functions.h"

#define RANKS 2

#define BAD(status, word, call)                                                                                        \
    do {                                                                                                               \
        EXPECT_ERROR(&e, status, word, call);                                                                          \
        EXPECT_USABLE(g);                                                                                              \
    } while (0)

static void nothing(const tutti_event *event, void *user)
{
    (void)event;
    (void)user;
}

static void objects(tutti_group *g, tutti_group *stale)
{
    tutti_error e;
    tutti_events *events = NULL;
    BAD(TUTTI_INVALID_ARGUMENT, "the group is NULL", tutti_events_create(NULL, &events, &e));
    BAD(TUTTI_BAD_STATE, "events_create: the group", tutti_events_create(stale, &events, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "events_create: the pointer", tutti_events_create(g, NULL, &e));
    EXPECT(events == NULL);
    EXPECT(tutti_events_create(NULL, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    EXPECT_OK(tutti_events_create(g, &events, NULL));
    EXPECT_OK(tutti_events_destroy(events, NULL));
    tutti_events *bad[] = {NULL, events, (tutti_events *)g, (tutti_events *)UINTPTR_MAX, (tutti_events *)(uintptr_t)1};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tutti_status want = bad[i] ? TUTTI_BAD_STATE : TUTTI_INVALID_ARGUMENT;
        tutti_work *work = NULL;
        int64_t id = 5;
        BAD(want, "events_on_complete: the events", tutti_events_on_complete(bad[i], nothing, NULL, &id, &e));
        BAD(want, "events_on_error: the events", tutti_events_on_error(bad[i], nothing, NULL, &id, &e));
        BAD(want, "events_on_operation: the events", tutti_events_on_operation(bad[i], 1, nothing, NULL, &id, &e));
        BAD(want, "events_start: the events",
            tutti_events_start(bad[i], 1, start_never, NULL, NULL, nothing, NULL, &work, &e));
        BAD(want, "events_remove: the events", tutti_events_remove(bad[i], 1, &e));
        BAD(want, "events_destroy: the events", tutti_events_destroy(bad[i], &e));
        EXPECT(id == 5 && work == NULL);
    }
}

static void listeners(tutti_group *g)
{
    tutti_error e;
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    int64_t id = 5;
    EXPECT_OK(tutti_events_create(g, &events, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "events_on_complete: the handler is NULL",
        tutti_events_on_complete(events, NULL, NULL, &id, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "events_on_error: the handler is NULL",
        tutti_events_on_error(events, NULL, NULL, &id, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "events_on_operation: the handler is NULL",
        tutti_events_on_operation(events, 1, NULL, NULL, &id, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "operation_id is 0", tutti_events_on_operation(events, 0, nothing, NULL, &id, &e));
    BAD(TUTTI_NOT_FOUND, "no such listener", tutti_events_remove(events, 0, &e));
    BAD(TUTTI_NOT_FOUND, "no such listener", tutti_events_remove(events, -1, &e));
    BAD(TUTTI_NOT_FOUND, "no such listener", tutti_events_remove(events, INT64_MAX, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "start function is NULL",
        tutti_events_start(events, 1, NULL, NULL, NULL, nothing, NULL, &work, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "operation_id is 0",
        tutti_events_start(events, 0, start_never, NULL, NULL, nothing, NULL, &work, &e));
    tutti_call call = {.size = 7};
    BAD(TUTTI_INVALID_ARGUMENT, "call.size",
        tutti_events_start(events, 1, start_never, NULL, &call, nothing, NULL, &work, &e));
    call.size = 5000;
    BAD(TUTTI_INVALID_ARGUMENT, "call.size",
        tutti_events_start(events, 1, start_never, NULL, &call, nothing, NULL, &work, &e));
    call.size = (uint32_t)(offsetof(tutti_call, error) + 4); /* half a pointer */
    BAD(TUTTI_INVALID_ARGUMENT, "call.size",
        tutti_events_start(events, 1, start_never, NULL, &call, nothing, NULL, &work, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "call.lane is 99",
        tutti_events_start(events, 1, start_barrier, NULL, TUTTI_CALL(.lane = 99), nothing, NULL, &work, &e));
    EXPECT(id == 5 && work == NULL);
    /* both of the caller's errors are filled */
    tutti_error start_error = {.status = TUTTI_OK};
    BAD(TUTTI_INVALID_ARGUMENT, "call.lane is 99",
        tutti_events_start(events, 1, start_barrier, NULL, TUTTI_CALL(.lane = 99, .error = &start_error), nothing, NULL,
                           &work, &e));
    EXPECT(memcmp(&e, &start_error, sizeof(e)) == 0);
    EXPECT(tutti_events_start(events, 0, start_never, NULL, NULL, nothing, NULL, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    /* legal calls that seem odd */
    EXPECT_OK(tutti_events_start(events, 0, start_barrier, NULL, NULL, NULL, NULL, &work, &e));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_events_destroy(events, &e));
}

static void deadlines(tutti_group *g, tutti_group *stale)
{
    tutti_error e;
    tutti_start operations[] = {{start_never, NULL}, {NULL, NULL}};
    BAD(TUTTI_INVALID_ARGUMENT, "run_with_deadline: the group is NULL",
        tutti_run_with_deadline(NULL, start_never, NULL, 0, NULL, &e));
    BAD(TUTTI_BAD_STATE, "run_with_deadline: the group",
        tutti_run_with_deadline(stale, start_never, NULL, 0, NULL, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "start function is NULL", tutti_run_with_deadline(g, NULL, NULL, 0, NULL, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "timeout_ms is -2", tutti_run_with_deadline(g, start_never, NULL, -2, NULL, &e));
    EXPECT(tutti_run_with_deadline(g, NULL, NULL, 0, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    BAD(TUTTI_INVALID_ARGUMENT, "run_all_with_deadline: the group is NULL",
        tutti_run_all_with_deadline(NULL, operations, 1, 0, NULL, &e));
    BAD(TUTTI_BAD_STATE, "run_all_with_deadline: the group",
        tutti_run_all_with_deadline(stale, operations, 1, 0, NULL, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "operations is NULL but count is 3",
        tutti_run_all_with_deadline(g, NULL, 3, 0, NULL, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "operations[1] is NULL", tutti_run_all_with_deadline(g, operations, 2, 0, NULL, &e));
    BAD(TUTTI_INVALID_ARGUMENT, "timeout_ms is -2", tutti_run_all_with_deadline(g, operations, 1, -2, NULL, &e));
    EXPECT(tutti_run_all_with_deadline(g, NULL, 3, 0, NULL, NULL) == TUTTI_INVALID_ARGUMENT);
    /* a token that has been destroyed */
    tutti_cancel_token *token = NULL;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
    BAD(TUTTI_BAD_STATE, "run_with_deadline: barrier: ", tutti_run_with_deadline(g, start_barrier, NULL, 0, token, &e));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *stale = NULL;
    int32_t me = tutti_group_rank(g);
    EXPECT_OK(tutti_group_create(g, &me, 1, NULL, &stale, &e));
    EXPECT_OK(tutti_group_destroy(stale, &e));
    objects(g, stale);
    listeners(g);
    deadlines(g, stale);
    return TUTTI_OK;
}

/* In the child of a fork the parent's objects answer FORKED. */
static void expect_forked(tutti_group *g, tutti_events *events)
{
    tutti_error e;
    tutti_events *more = NULL;
    tutti_start operation = {start_never, NULL};
#define FORKED(call) EXPECT_ERROR(&e, TUTTI_FORKED, "fork", call)
    FORKED(tutti_events_create(g, &more, &e));
    FORKED(tutti_events_on_complete(events, nothing, NULL, NULL, &e));
    FORKED(tutti_events_on_error(events, nothing, NULL, NULL, &e));
    FORKED(tutti_events_on_operation(events, 1, nothing, NULL, NULL, &e));
    FORKED(tutti_events_start(events, 1, start_never, NULL, NULL, nothing, NULL, NULL, &e));
    FORKED(tutti_events_remove(events, 1, &e));
    FORKED(tutti_events_destroy(events, &e));
    FORKED(tutti_run_with_deadline(g, start_never, NULL, 0, NULL, &e));
    FORKED(tutti_run_all_with_deadline(g, &operation, 1, 0, NULL, &e));
#undef FORKED
}

static void forks(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_events *events = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .world_size = 1), &g, &e));
    EXPECT_OK(tutti_events_create(g, &events, &e));
    pid_t pid = fork();
    if (pid == 0) {
        expect_forked(g, events);
        _exit(test_result());
    }
    int status = -1;
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT_OK(tutti_events_destroy(events, &e));
    EXPECT_OK(tutti_group_destroy(g, &e));
}

int main(void)
{
    forks();
    test_ranks(RANKS, rank);
    return test_result();
}
