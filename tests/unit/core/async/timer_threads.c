/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer under many threads that set and stop timers, while others end its thread again and again. */
#include "timer_support.h"

#include <pthread.h>
#include <stdbool.h>

#define THREADS 4
#define OWN     8 /* timers of each thread */
#define ROUNDS  3000

/* A timer that belongs to one thread. That thread records when the timer may notify. */
struct owned {
    struct tti_timer timer;
    atomic_bool allowed;
    int rings; /* no atomic: after a stop the owner reads it without a race */
};

static atomic_int forbidden;

static void ring_owned(struct tti_timer *timer)
{
    struct owned *o = (struct owned *)timer;
    if (!atomic_load(&o->allowed)) {
        atomic_fetch_add(&forbidden, 1);
    }
    o->rings++;
    if (o->rings % 7 == 0) {
        tti_timer_set_earlier(timer, tti_now_ns() + 1000, NULL);
    }
}

static void *churn(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    struct owned timers[OWN] = {0};
    for (int i = 0; i < OWN; i++) {
        timers[i].timer.notify = ring_owned;
    }
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        struct owned *o = &timers[(random >> 10) % OWN];
        int64_t due = tti_now_ns() + (int64_t)((random >> 16) % 100000) - 20000;
        switch ((random >> 24) % 4) {
        case 0:
            atomic_store(&o->allowed, true);
            tti_timer_set(&o->timer, due, NULL);
            break;
        case 1:
            atomic_store(&o->allowed, true);
            tti_timer_set_earlier(&o->timer, due, NULL);
            break;
        case 2:
            sched_yield();
            break;
        default:
            tti_timer_stop(&o->timer);
            atomic_store(&o->allowed, false);
            o->rings++;
        }
    }
    for (int i = 0; i < OWN; i++) {
        tti_timer_stop(&timers[i].timer);
    }
    return NULL;
}

static void *shut_down_again_and_again(void *stop_flag)
{
    while (!atomic_load((atomic_int *)stop_flag)) {
        tti_timer_shutdown();
        sched_yield();
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    pthread_t others[THREADS];
    pthread_t shutter;
    atomic_int stop_flag = 0;
    assert_int_equal(pthread_create(&shutter, NULL, shut_down_again_and_again, &stop_flag), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&others[i], NULL, churn, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(others[i], NULL);
    }
    atomic_store(&stop_flag, 1);
    pthread_join(shutter, NULL);
    assert_int_equal(atomic_load(&forbidden), 0);
}

/* A caller adds an entry under a lock before tti_timer_set_earlier. The next notification, or a later one, finds it:
 * none is left. */
struct inbox {
    struct tti_timer timer;
    pthread_mutex_t lock;
    int waiting;
    atomic_int taken;
};

static void empty(struct tti_timer *timer)
{
    struct inbox *box = (struct inbox *)timer;
    pthread_mutex_lock(&box->lock);
    atomic_fetch_add(&box->taken, box->waiting);
    box->waiting = 0;
    pthread_mutex_unlock(&box->lock);
}

static void *fill(void *argument)
{
    struct inbox *box = argument;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&box->lock);
        box->waiting++;
        pthread_mutex_unlock(&box->lock);
        tti_timer_set_earlier(&box->timer, 1, NULL);
        if (i % 16 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void nothing_is_missed(void **state)
{
    (void)state;
    struct inbox box = {.timer = {.notify = empty}, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t others[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&others[i], NULL, fill, &box), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(others[i], NULL);
    }
    wait_for(&box.taken, THREADS * ROUNDS);
    tti_timer_stop(&box.timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads),
        cmocka_unit_test(nothing_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
