/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer: order, setting again, stopping, the end of its thread, fork. The test does not assert how late a
 * notification comes, only that it comes, and not before its time.
 */
#include "timer_support.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOUR INT64_C(3600000000000)

/* A timer that counts its notifications, and may wait in one. */
struct counted {
    struct tti_timer timer;
    atomic_int calls;
    atomic_int entered;
    atomic_int *gate; /* its notification waits until this is not 0 */
    int64_t called_ns;
    int *order; /* the number of the notification among all goes here */
    int unguarded;
};

static atomic_int all_calls;

static void notify(struct tti_timer *timer)
{
    struct counted *counted = (struct counted *)timer;
    atomic_fetch_add(&counted->entered, 1);
    if (counted->gate) {
        wait_for(counted->gate, 1);
    }
    counted->called_ns = tti_now_ns();
    counted->unguarded++;
    int number = atomic_fetch_add(&all_calls, 1);
    if (counted->order) {
        *counted->order = number;
    }
    atomic_fetch_add(&counted->calls, 1);
}

static void notifies_once_in_time(void **state)
{
    (void)state;
    tutti_error e;
    struct counted counted = {.timer = {.notify = notify}};
    int calls = 0;
    for (int64_t delay_ns = 1000; delay_ns < 100000000; delay_ns *= 4) {
        int64_t due = tti_now_ns() + delay_ns;
        assert_int_equal(tti_timer_set(&counted.timer, due, &e), TUTTI_OK);
        wait_for(&counted.calls, ++calls);
        assert_true(counted.called_ns >= due);
    }
    assert_int_equal(tti_timer_set(&counted.timer, 0, &e), TUTTI_OK); /* long past */
    wait_for(&counted.calls, ++calls);
    assert_int_equal(tti_timer_set(&counted.timer, INT64_MIN, &e), TUTTI_OK);
    wait_for(&counted.calls, ++calls);
    tti_timer_stop(&counted.timer);
    assert_int_equal(atomic_load(&counted.calls), calls);
}

/* While one notification is held up, other timers are set out of order; timers with equal times notify in the order in
 * which they were set. */
static void notifies_in_order(void **state)
{
    (void)state;
    atomic_int gate = 0;
    struct counted first = {.timer = {.notify = notify}};
    struct counted timers[6] = {0};
    const int times[6] = {300, 100, 200, 100, 400, 50};
    const int places[6] = {4, 1, 3, 2, 5, 0};
    int order[6];
    first.gate = &gate;
    tti_timer_set(&first.timer, 1, NULL);
    wait_for(&first.entered, 1);
    for (int i = 0; i < 6; i++) {
        timers[i].timer.notify = notify;
        timers[i].order = &order[i];
        tti_timer_set(&timers[i].timer, times[i], NULL);
    }
    int before = atomic_load(&all_calls);
    atomic_store(&gate, 1);
    for (int i = 0; i < 6; i++) {
        wait_for(&timers[i].calls, 1);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(order[i] - before - 1, places[i]);
    }
    tti_timer_stop(&first.timer);
}

static void setting_again(void **state)
{
    (void)state;
    atomic_int gate = 0;
    struct counted first = {.timer = {.notify = notify}};
    struct counted moved_away = {.timer = {.notify = notify}};
    struct counted moved_near = {.timer = {.notify = notify}};
    struct counted never = {.timer = {.notify = notify}};
    struct counted last = {.timer = {.notify = notify}};
    first.gate = &gate;
    tti_timer_set(&first.timer, 1, NULL);
    wait_for(&first.entered, 1);
    tti_timer_set(&moved_away.timer, 2, NULL);
    tti_timer_set(&moved_near.timer, tti_now_ns() + HOUR, NULL);
    tti_timer_set(&never.timer, 2, NULL);
    tti_timer_set(&moved_away.timer, tti_now_ns() + HOUR, NULL);
    tti_timer_set(&moved_near.timer, 2, NULL);
    tti_timer_set(&never.timer, TTI_NEVER, NULL);
    tti_timer_set(&last.timer, 3, NULL);
    atomic_store(&gate, 1);
    wait_for(&last.calls, 1);
    assert_int_equal(atomic_load(&moved_away.calls), 0);
    assert_int_equal(atomic_load(&moved_near.calls), 1);
    assert_int_equal(atomic_load(&never.calls), 0);
    tti_timer_set(&moved_away.timer, 1, NULL);
    wait_for(&moved_away.calls, 1);
    tti_timer_stop(&moved_away.timer);
    tti_timer_stop(&moved_near.timer);
    tti_timer_stop(&last.timer);
}

static void setting_earlier(void **state)
{
    (void)state;
    struct counted counted = {.timer = {.notify = notify}};
    int64_t now = tti_now_ns();
    assert_int_equal(tti_timer_set_earlier(&counted.timer, TTI_NEVER, NULL), TUTTI_OK);
    assert_int_equal(atomic_load(&counted.timer.due_ns), 0);
    assert_int_equal(tti_timer_set_earlier(&counted.timer, now + HOUR, NULL), TUTTI_OK); /* was not set */
    assert_true(atomic_load(&counted.timer.due_ns) == now + HOUR);
    assert_int_equal(tti_timer_set_earlier(&counted.timer, now + 2 * HOUR, NULL), TUTTI_OK);
    assert_true(atomic_load(&counted.timer.due_ns) == now + HOUR);
    assert_int_equal(tti_timer_set_earlier(&counted.timer, now + HOUR / 2, NULL), TUTTI_OK);
    assert_true(atomic_load(&counted.timer.due_ns) == now + HOUR / 2);
    assert_int_equal(tti_timer_set_earlier(&counted.timer, 5, NULL), TUTTI_OK);
    wait_for(&counted.calls, 1);
    tti_timer_stop(&counted.timer);
    assert_int_equal(atomic_load(&counted.calls), 1);
    assert_int_equal(tti_timer_set_earlier(&counted.timer, 5, NULL), TUTTI_OK); /* not set any more: sets it */
    wait_for(&counted.calls, 2);
    tti_timer_stop(&counted.timer);
}

static void stopped_ones_do_not_notify(void **state)
{
    (void)state;
    atomic_int gate = 0;
    struct counted first = {.timer = {.notify = notify}};
    struct counted stopped = {.timer = {.notify = notify}};
    struct counted fresh = {.timer = {.notify = notify}};
    struct counted last = {.timer = {.notify = notify}};
    first.gate = &gate;
    tti_timer_stop(&fresh.timer);
    tti_timer_set(&first.timer, 1, NULL);
    wait_for(&first.entered, 1);
    tti_timer_set(&stopped.timer, 2, NULL);
    tti_timer_set(&last.timer, 3, NULL);
    tti_timer_stop(&stopped.timer);
    tti_timer_stop(&stopped.timer);
    atomic_store(&gate, 1);
    wait_for(&last.calls, 1);
    assert_int_equal(atomic_load(&stopped.calls), 0);
    tti_timer_stop(&first.timer);
    tti_timer_stop(&last.timer);
}

struct stopper {
    struct counted *counted;
    atomic_int begins;
    int seen;
};

static void *stop(void *argument)
{
    struct stopper *s = argument;
    atomic_store(&s->begins, 1);
    tti_timer_stop(&s->counted->timer);
    s->seen = s->counted->unguarded; /* a race, unless stop waits for the notification */
    return NULL;
}

/* Another thread stops it while it notifies; returns what that thread saw after the stop. */
static int stop_in_a_notification(struct counted *counted)
{
    struct stopper stopper = {.counted = counted};
    pthread_t thread;
    tti_timer_set(&counted->timer, 1, NULL);
    wait_for(&counted->entered, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop, &stopper), 0);
    wait_for(&stopper.begins, 1);
    for (int i = 0; i < 20; i++) {
        sched_yield();
    }
    atomic_store(counted->gate, 1);
    pthread_join(thread, NULL);
    return stopper.seen;
}

static void stop_waits_for_a_notification(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        atomic_int gate = 0;
        struct counted counted = {.timer = {.notify = notify}, .gate = &gate};
        assert_int_equal(stop_in_a_notification(&counted), 1);
    }
}

/* From inside a notification: stop the timer itself and another one, set both again, read the mask of signals. */
struct inner {
    struct tti_timer timer;
    struct tti_timer other;
    atomic_int calls;
    atomic_int other_calls;
    atomic_int blocked;
};

static void notify_other(struct tti_timer *timer)
{
    struct inner *i = (struct inner *)((char *)timer - offsetof(struct inner, other));
    atomic_fetch_add(&i->other_calls, 1);
}

static void notify_inner(struct tti_timer *timer)
{
    struct inner *i = (struct inner *)timer;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    atomic_store(&i->blocked, sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT) && sigismember(&mask, SIGUSR1));
    tti_timer_stop(timer);
    tti_timer_set(&i->other, 1, NULL);
    tti_timer_stop(&i->other);
    if (atomic_fetch_add(&i->calls, 1) + 1 < 5) {
        tti_timer_set(timer, tti_now_ns() + 1000, NULL);
    } else {
        tti_timer_set(&i->other, 1, NULL);
    }
}

static void from_inside(void **state)
{
    (void)state;
    struct inner i = {.timer = {.notify = notify_inner}, .other = {.notify = notify_other}};
    tti_timer_set(&i.timer, 1, NULL);
    wait_for(&i.calls, 5);
    wait_for(&i.other_calls, 1);
    tti_timer_stop(&i.timer);
    tti_timer_stop(&i.other);
    assert_int_equal(atomic_load(&i.calls), 5);
    assert_int_equal(atomic_load(&i.other_calls), 1);
    assert_int_equal(atomic_load(&i.blocked), 1);
}

/* A timer that sets itself again while it is being stopped. */
static void notify_again(struct tti_timer *timer)
{
    notify(timer);
    tti_timer_set(timer, tti_now_ns() + HOUR, NULL);
}

static void a_persistent_one(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        atomic_int gate = 0;
        struct counted counted = {.timer = {.notify = notify_again}, .gate = &gate};
        assert_int_equal(stop_in_a_notification(&counted), 1);
        assert_int_equal(atomic_load(&counted.timer.due_ns), 0);
    }
}

/* Its memory may be freed while it notifies. */
static void free_itself(struct tti_timer *timer)
{
    struct counted *counted = (struct counted *)timer;
    atomic_int *gate = counted->gate;
    free(counted);
    atomic_store(gate, 1);
}

static void freed_inside(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        atomic_int gone = 0;
        struct counted *counted = calloc(1, sizeof(*counted));
        assert_non_null(counted);
        counted->timer.notify = free_itself;
        counted->gate = &gone;
        tti_timer_set(&counted->timer, 1, NULL);
        wait_for(&gone, 1);
    }
}

static void shut_down(void **state)
{
    (void)state;
    struct counted far = {.timer = {.notify = notify}};
    struct counted near = {.timer = {.notify = notify}};
    tti_timer_set(&far.timer, tti_now_ns() + HOUR, NULL);
    tti_timer_shutdown(); /* does nothing: a timer is set */
    tti_timer_set(&near.timer, 1, NULL);
    wait_for(&near.calls, 1);
    tti_timer_stop(&far.timer);
    for (int i = 2; i < 20; i++) {
        tti_timer_shutdown();
        tti_timer_shutdown();
        tti_timer_set(&near.timer, 1, NULL); /* starts another thread */
        wait_for(&near.calls, i);
    }
    tti_timer_shutdown();
    tti_timer_stop(&near.timer);
}

static int threads(void)
{
    char line[256];
    int count = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "Threads:", 8) == 0) {
            count = atoi(line + 8);
        }
    }
    if (file) {
        fclose(file);
    }
    return count;
}

/* The kernel counts a joined thread for a moment longer. */
static void expect_threads(int count)
{
    int64_t until = tti_now_ns() + WAIT_LIMIT;
    while (threads() != count && tti_now_ns() < until) {
        sched_yield();
    }
    assert_int_equal(threads(), count);
}

static void shutdown_ends_the_thread(void **state)
{
    (void)state;
    struct counted counted = {.timer = {.notify = notify}};
    tti_timer_shutdown();
    int alone = threads();
    for (int i = 0; i < 1000; i++) {
        sched_yield();
        int count = threads();
        alone = count < alone ? count : alone;
    }
    tti_timer_set(&counted.timer, tti_now_ns() + HOUR, NULL);
    expect_threads(alone + 1);
    tti_timer_shutdown();
    assert_int_equal(threads(), alone + 1);
    tti_timer_stop(&counted.timer);
    tti_timer_shutdown();
    expect_threads(alone);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static int in_child(int (*function)(struct counted *), struct counted *counted)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        _exit(function(counted));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int nothing_is_set(struct counted *counted)
{
    if (atomic_load(&counted->timer.due_ns) != 0) {
        return 1;
    }
    tti_timer_stop(&counted->timer);
#ifndef __SANITIZE_THREAD__ /* it cannot start threads in the child of a process that has threads */
    int before = atomic_load(&counted->calls);
    if (tti_timer_set_earlier(&counted->timer, 1, NULL) != TUTTI_OK) {
        return 2;
    }
    wait_for(&counted->calls, before + 1);
    tti_timer_stop(&counted->timer);
#endif
    tti_timer_shutdown();
    return 0;
}

/* Forks while the thread sleeps, and while a timer notifies: no timer is set in the child, and the parent's timers
 * continue. */
static void forked(void **state)
{
    (void)state;
    atomic_int gate = 0;
    struct counted far = {.timer = {.notify = notify}};
    struct counted held = {.timer = {.notify = notify}};
    tti_timer_set(&far.timer, tti_now_ns() + HOUR, NULL);
    assert_int_equal(in_child(nothing_is_set, &far), 0);
    held.gate = &gate;
    tti_timer_set(&held.timer, 1, NULL);
    wait_for(&held.entered, 1);
    assert_int_equal(in_child(nothing_is_set, &far), 0);
    assert_true(atomic_load(&far.timer.due_ns) != 0);
    atomic_store(&gate, 1);
    tti_timer_set(&far.timer, 1, NULL);
    wait_for(&far.calls, 1);
    tti_timer_stop(&held.timer);
    tti_timer_stop(&far.timer);
}

/* The default stack of new threads is made larger than the address space, so none can be started. */
static int no_thread(struct counted *counted)
{
    tutti_error e;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)1 << 62) != 0 || pthread_setattr_default_np(&attributes) != 0) {
        return 1;
    }
    if (tti_timer_set(&counted->timer, 1, &e) != TUTTI_NO_RESOURCE || e.status != TUTTI_NO_RESOURCE ||
        !strstr(e.message, "thread")) {
        return 2;
    }
    if (atomic_load(&counted->timer.due_ns) != 0 ||
        tti_timer_set_earlier(&counted->timer, 1, NULL) != TUTTI_NO_RESOURCE) {
        return 3;
    }
    tti_timer_stop(&counted->timer);
    tti_timer_shutdown();
    return 0;
}

static void without_a_thread(void **state)
{
    (void)state;
    struct counted counted = {.timer = {.notify = notify}};
    assert_int_equal(in_child(no_thread, &counted), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_thread), /* first: a child of a process without threads */
        cmocka_unit_test(notifies_once_in_time),
        cmocka_unit_test(notifies_in_order),
        cmocka_unit_test(setting_again),
        cmocka_unit_test(setting_earlier),
        cmocka_unit_test(stopped_ones_do_not_notify),
        cmocka_unit_test(stop_waits_for_a_notification),
        cmocka_unit_test(from_inside),
        cmocka_unit_test(a_persistent_one),
        cmocka_unit_test(freed_inside),
        cmocka_unit_test(shut_down),
        cmocka_unit_test(shutdown_ends_the_thread),
        cmocka_unit_test(forked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
