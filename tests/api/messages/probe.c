/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Probes that wait: several at once, in callbacks, while the group fails, and for messages that the engine alone cannot
 * see.
 */
#include "messages_async.h"
#include "time_limits.h"

enum { TAG = 7, PROBERS = 4 };

static tutti_message blank(void)
{
    return (tutti_message)TUTTI_MESSAGE_INIT;
}

static void *probe_beside(void *user)
{
    tutti_message m = blank();
    EXPECT_OK(tutti_probe_wait(user, 1, TAG, TUTTI_CALL(.timeout_ms = LONG_MS), &m));
    EXPECT(m.source == 1 && m.tag == TAG && m.count == 1 && m.dtype == TUTTI_I32);
    return NULL;
}

/* Threads and works that probe for the same message all see it, and none takes it. */
static void many(tutti_group *g)
{
    if (tutti_group_rank(g) == 1) {
        EXPECT_OK(tutti_barrier(g, NULL));
        EXPECT_OK(send_value(g, 5, 0, TAG));
        return;
    }
    int32_t value = -1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    pthread_t threads[PROBERS];
    tutti_work *works[PROBERS];
    tutti_message messages[PROBERS];
    struct recorded recorded = {0};
    for (int i = 0; i < PROBERS; i++) {
        messages[i] = blank();
        EXPECT_OK(tutti_probe_async(g, i % 2 == 0 ? 1 : TUTTI_ANY_SOURCE, TAG,
                                    i == 0 ? TUTTI_CALL(.callback = record, .user = &recorded) : NULL, &messages[i],
                                    &works[i]));
        EXPECT(pthread_create(&threads[i], NULL, probe_beside, g) == 0);
    }
    EXPECT_OK(tutti_barrier(g, NULL));
    for (int i = 0; i < PROBERS; i++) {
        pthread_join(threads[i], NULL);
        land(works[i], TUTTI_OK);
        EXPECT(messages[i].source == 1 && messages[i].tag == TAG && messages[i].bytes == 4);
    }
    EXPECT(atomic_load(&recorded.calls) == 1 && recorded.status == TUTTI_OK);
    EXPECT_OK(tutti_recv(g, &t, 1, TAG, TUTTI_CALL(.timeout_ms = LONG_MS), NULL));
    EXPECT(value == 5);
}

/* A work that no thread waits for ends at its deadline, and its callback gets the error. */
static void no_call_waits(tutti_group *g)
{
    struct recorded recorded = {0};
    tutti_work *work = NULL;
    if (tutti_group_rank(g) == 0) {
        EXPECT_OK(tutti_probe_async(g, 1, NEVER, TUTTI_CALL(.timeout_ms = 5, .callback = record, .user = &recorded),
                                    NULL, &work));
        EXPECT(reaches(&recorded.calls, 1));
        EXPECT(recorded.status == TUTTI_TIMEOUT);
        land(work, TUTTI_TIMEOUT);
    }
    EXPECT_USABLE(g);
}

/* A cancel that has returned OK, and a deadline at the same time: the status is CANCELLED. */
static void cancel_at_the_deadline(tutti_group *g)
{
    for (int i = 0; tutti_group_rank(g) == 0 && i < 300; i++) {
        tutti_work *work = NULL;
        int32_t ended = 0;
        EXPECT_OK(tutti_probe_async(g, 1, NEVER, TUTTI_CALL(.timeout_ms = 1), NULL, &work));
        for (int looks = 0; !ended && looks < i; looks++) { /* later each time */
            EXPECT_OK(tutti_work_test(work, &ended));
        }
        const tutti_status cancel = tutti_work_cancel(work, NULL);
        EXPECT(cancel == TUTTI_OK || cancel == TUTTI_TOO_LATE);
        land(work, cancel == TUTTI_OK ? TUTTI_CANCELLED : TUTTI_TIMEOUT);
    }
    EXPECT_USABLE(g);
}

struct inside {
    tutti_group *group;
    tutti_status waited;
    tutti_status started;
    tutti_work *work;
};

static void probe_inside(tutti_status status, const tutti_error *error, void *user)
{
    struct inside *i = user;
    (void)status;
    (void)error;
    i->waited = tutti_probe_wait(i->group, 1 - tutti_group_rank(i->group), NEVER, NULL, NULL);
    i->started = tutti_probe_async(i->group, 1 - tutti_group_rank(i->group), NEVER, NULL, NULL, &i->work);
}

static void in_a_callback(tutti_group *g)
{
    struct inside inside = {.group = g};
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = probe_inside, .user = &inside), &work));
    land(work, TUTTI_OK);
    EXPECT(inside.waited == TUTTI_WOULD_DEADLOCK && inside.started == TUTTI_OK);
    EXPECT_OK(tutti_work_cancel(inside.work, NULL));
    land(inside.work, TUTTI_CANCELLED);
    EXPECT_USABLE(g);
}

static void count_call(tutti_status status, const tutti_error *error, void *calls)
{
    (void)status;
    (void)error;
    ++*(int *)calls;
}

/* A probe that is refused has not started. */
static void no_callback(tutti_group *g)
{
    int calls = 0;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "",
                 tutti_probe_wait(g, tutti_group_rank(g), TAG,
                                  TUTTI_CALL(.callback = count_call, .user = &calls, .error = &e), NULL));
    EXPECT(calls == 0);
}

static tutti_status usable(tutti_group *g, void *user)
{
    (void)user;
    for (int i = 0; i < 20; i++) {
        many(g);
    }
    no_call_waits(g);
    no_callback(g);
    cancel_at_the_deadline(g);
    in_a_callback(g);
    return TUTTI_OK;
}

/* Waiting probes when the other rank destroys its group. */
static tutti_status left(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_work *work = NULL;
    if (tutti_group_rank(g) == 1) {
        return TUTTI_OK;
    }
    EXPECT_OK(tutti_probe_async(g, 1, TAG, TUTTI_CALL(.timeout_ms = LONG_MS), NULL, &work));
    EXPECT_ERROR(&e, TUTTI_PEER_LEFT, "rank 1",
                 tutti_probe_wait(g, 1, TAG, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e), NULL));
    EXPECT(e.suspect == 1 && e.operation == TUTTI_OP_PROBE);
    land(work, TUTTI_PEER_LEFT);
    return TUTTI_OK;
}

/* Waiting probes when the group fails, and later ones. */
static tutti_status revoked(tutti_group *g, void *user)
{
    static _Atomic int posted;
    (void)user;
    tutti_error e;
    tutti_work *work = NULL;
    if (tutti_group_rank(g) == 1) {
        EXPECT(reaches(&posted, 1));
        EXPECT_OK(tutti_group_revoke(g, &e));
        return TUTTI_OK;
    }
    EXPECT_OK(tutti_probe_async(g, 1, TAG, TUTTI_CALL(.timeout_ms = LONG_MS), NULL, &work));
    reach(&posted);
    EXPECT_ERROR(&e, TUTTI_REVOKED, "",
                 tutti_probe_wait(g, TUTTI_ANY_SOURCE, TAG, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e), NULL));
    land(work, TUTTI_REVOKED);
    EXPECT_ERROR(&e, TUTTI_REVOKED, "", tutti_probe_wait(g, 1, TAG, TUTTI_CALL(.timeout_ms = 1, .error = &e), NULL));
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, usable);
    test_ranks(2, left);
    test_ranks(2, revoked);
    return test_result();
}
