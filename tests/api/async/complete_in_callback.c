/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A callback of group a completes a task of group b, while a callback of b waits for an operation of a. No thread that
 * a needs may wait for the callback of b: neither the owner of the lane, nor the worker on which other callbacks of a
 * run.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "api/async/work_end.h"
#include "api/check.h"
#include "clock.h"

#define RANKS  2
#define ROUNDS 20

enum { OPENS = 1, FOLLOWS = 2 }; /* tags */

static const int64_t one = 1;

/* What the callbacks of a rank share. */
struct scene {
    tutti_group *a;
    tutti_group *b;
    tutti_work *task; /* of b */
    tutti_work *next; /* of a, with a callback */
    int32_t values[2];
    bool by_messages;
    _Atomic int in_a;
    _Atomic int in_b;
    _Atomic int tasks; /* calls of the task's callback */
    _Atomic int nexts;
};

static void count(tutti_status status, const tutti_error *error, void *user)
{
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* A callback of b may wait for a. */
static void end_task(tutti_status status, const tutti_error *error, void *user)
{
    struct scene *s = user;
    tutti_error e;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    EXPECT_ERROR(&e, TUTTI_OK, "", tutti_barrier(s->a, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e)));
    atomic_fetch_add(&s->tasks, 1);
}

static void complete_task(tutti_status status, const tutti_error *error, void *user)
{
    struct scene *s = user;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    atomic_store(&s->in_a, 1);
    EXPECT(await_count(&s->in_b, 1));
    EXPECT_OK(tutti_work_complete(s->task, TUTTI_OK, NULL, NULL));
    EXPECT(!has_ended(s->task));
}

static tutti_status start_receive(struct scene *s, int index, tutti_callback callback, void *user, tutti_work **work)
{
    DLTensor t = tutti_tensor_1d(&s->values[index], &one, TUTTI_I32);
    return tutti_recv_async(s->a, &t, 1 - tutti_group_rank(s->a), OPENS + index,
                            TUTTI_CALL(.timeout_ms = LONG_MS, .callback = callback, .user = user), NULL, work);
}

static void send_to_peer(struct scene *s, int tag)
{
    int32_t value = tag;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    EXPECT_OK(tutti_send(s->a, &t, 1 - tutti_group_rank(s->a), tag, TUTTI_CALL(.timeout_ms = LONG_MS)));
}

/* The next operation has a callback, so a thread of a must be free for it. */
static void wait_for_a(tutti_status status, const tutti_error *error, void *user)
{
    struct scene *s = user;
    tutti_error e;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK && await_count(&s->in_a, 1));
    if (s->by_messages) {
        EXPECT_OK(start_receive(s, 1, count, (void *)&s->nexts, &s->next));
        send_to_peer(s, FOLLOWS);
    } else {
        EXPECT_OK(tutti_barrier_async(s->a, TUTTI_CALL(.callback = count, .user = (void *)&s->nexts), &s->next));
    }
    atomic_store(&s->in_b, 1);
    if (!s->by_messages) {
        EXPECT_ERROR(&e, TUTTI_OK, "", tutti_barrier(s->a, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e)));
    }
    EXPECT(tutti_work_wait(s->next, LONG_MS) == TUTTI_OK);
    EXPECT(!has_ended(s->task)); /* its callback waits for this one */
}

static void cross(tutti_group *a, tutti_group *b, bool by_messages)
{
    struct scene s = {.a = a, .b = b, .by_messages = by_messages};
    tutti_work *of_a = NULL;
    tutti_work *of_b = NULL;
    EXPECT_OK(tutti_work_create(b, NULL, TUTTI_CALL(.callback = end_task, .user = &s), &s.task));
    if (by_messages) {
        EXPECT_OK(start_receive(&s, 0, complete_task, &s, &of_a));
        send_to_peer(&s, OPENS);
    } else {
        EXPECT_OK(tutti_barrier_async(a, TUTTI_CALL(.callback = complete_task, .user = &s), &of_a));
    }
    EXPECT_OK(tutti_barrier_async(b, TUTTI_CALL(.callback = wait_for_a, .user = &s), &of_b));
    EXPECT_OK(end(of_a));
    EXPECT_OK(end(of_b));
    EXPECT_OK(end(s.task));
    EXPECT_OK(end(s.next));
    EXPECT(atomic_load(&s.tasks) == 1 && atomic_load(&s.nexts) == 1);
    EXPECT(!by_messages || (s.values[0] == OPENS && s.values[1] == FOLLOWS));
}

static void complete(tutti_status status, const tutti_error *error, void *user)
{
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK);
    EXPECT_OK(tutti_work_complete(user, TUTTI_OK, NULL, NULL));
    EXPECT(!has_ended(user));
}

/* On a thread of the caller the task has ended when the call returns that has called the callback. */
static void on_own_thread(tutti_group *a, tutti_group *b)
{
    _Atomic int calls = 0;
    tutti_work *tasks[2];
    EXPECT_OK(tutti_work_create(b, NULL, TUTTI_CALL(.callback = count, .user = (void *)&calls), &tasks[0]));
    EXPECT_OK(tutti_work_create(a, NULL, TUTTI_CALL(.callback = complete, .user = tasks[0]), &tasks[1]));
    EXPECT_OK(tutti_work_complete(tasks[1], TUTTI_OK, NULL, NULL));
    EXPECT(has_ended(tasks[0]) && has_ended(tasks[1]) && atomic_load(&calls) == 1);
    EXPECT(end(tasks[0]) == TUTTI_OK && end(tasks[1]) == TUTTI_OK);
    EXPECT_OK(tutti_work_create(b, NULL, TUTTI_CALL(.callback = count, .user = (void *)&calls), &tasks[0]));
    EXPECT_OK(tutti_barrier(a, TUTTI_CALL(.callback = complete, .user = tasks[0])));
    EXPECT(has_ended(tasks[0]) && atomic_load(&calls) == 2);
    EXPECT(end(tasks[0]) == TUTTI_OK);
}

static tutti_status rank(tutti_group *world, void *user)
{
    (void)user;
    tutti_group *groups[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(tutti_group_create(world, (const int32_t[]){0, 1}, RANKS, NULL, &groups[i], NULL));
    }
    for (int round = 0; round < ROUNDS; round++) {
        cross(groups[0], groups[1], false);
        cross(groups[0], groups[1], true);
        on_own_thread(groups[0], groups[1]);
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_USABLE(groups[i]);
        EXPECT_OK(tutti_group_destroy(groups[i], NULL));
    }
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
