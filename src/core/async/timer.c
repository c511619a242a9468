/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timers that are set form a list in the order of their times, under one lock. The thread takes the first timer out
 * when it is due, and calls its function without the lock.
 *
 * Cost: setting a timer searches the list from its end. Most timers are deadlines some minutes ahead and the newest is
 * the latest, so that takes a step or two. The list has at most one entry for each lane and each token.
 */
#include "core/async/timer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process/fork.h"
#include "base/process/thread.h"

#define NOT_SET 0

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_condattr_t monotonic;
static pthread_cond_t earlier;  /* the thread waits: a new first timer, or the end */
static pthread_cond_t notified; /* other threads wait: `notifying` has changed */

/* Under the lock. */
static struct tti_timer *first;
static struct tti_timer *last;
static struct tti_timer *notifying; /* its function is running; compared only, since it may be gone */
static bool running;
static pthread_t thread;
static uintptr_t serial; /* of the thread, which ends when this number is no longer its own */

static void make_conditions(void)
{
    pthread_cond_init(&earlier, &monotonic);
    pthread_cond_init(&notified, &monotonic);
}

/* In the child. The lock is free or about to be (base/process/fork.h), and the conditions may count threads that are
 * not there. */
static void forget(void)
{
    while (first) {
        struct tti_timer *timer = first;
        first = timer->next;
        atomic_store_explicit(&timer->due_ns, NOT_SET, memory_order_relaxed);
    }
    last = NULL;
    notifying = NULL;
    running = false;
    serial++;
    make_conditions();
}

static void prepare(void)
{
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    make_conditions();
    pthread_atfork(NULL, NULL, forget);
}

static bool inside(void)
{
    return running && pthread_equal(thread, pthread_self());
}

/* Under the lock, which orders all changes. */
static int64_t due_of(const struct tti_timer *timer)
{
    return atomic_load_explicit(&timer->due_ns, memory_order_relaxed);
}

static void take_out(struct tti_timer *timer)
{
    *(timer->previous ? &timer->previous->next : &first) = timer->next;
    *(timer->next ? &timer->next->previous : &last) = timer->previous;
    /* seq_cst: see tti_timer_set_earlier */
    atomic_store_explicit(&timer->due_ns, NOT_SET, memory_order_seq_cst);
}

static void put_in(struct tti_timer *timer, int64_t due_ns)
{
    struct tti_timer *before = last;
    while (before && due_of(before) > due_ns) {
        before = before->previous;
    }
    timer->previous = before;
    timer->next = before ? before->next : first;
    *(before ? &before->next : &first) = timer;
    *(timer->next ? &timer->next->previous : &last) = timer;
    atomic_store_explicit(&timer->due_ns, due_ns, memory_order_relaxed);
}

static void sleep_until(int64_t due_ns)
{
    struct timespec until = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    pthread_cond_timedwait(&earlier, &lock.mutex, &until);
}

static void *serve(void *own_serial)
{
    tti_fork_mutex_lock(&lock);
    while (serial == (uintptr_t)own_serial) {
        struct tti_timer *timer = first;
        if (!timer) {
            pthread_cond_wait(&earlier, &lock.mutex);
        } else if (due_of(timer) > tti_now_ns()) {
            sleep_until(due_of(timer));
        } else {
            take_out(timer);
            notifying = timer;
            tti_fork_mutex_unlock(&lock);
            timer->notify(timer);
            tti_fork_mutex_lock(&lock);
            notifying = NULL;
            pthread_cond_broadcast(&notified);
        }
    }
    tti_fork_mutex_unlock(&lock);
    return NULL;
}

static tutti_status start(tutti_error *error)
{
    if (running) {
        return TUTTI_OK;
    }
    int code = tti_thread_create(&thread, NULL, serve, (void *)serial);
    running = code == 0;
    return running ? TUTTI_OK : tti_error_system(error, code, "the thread that watches deadlines cannot be started");
}

static tutti_status set(struct tti_timer *timer, int64_t due_ns, bool only_earlier, tutti_error *error)
{
    pthread_once(&once, prepare);
    due_ns = due_ns < 1 ? 1 : due_ns;
    tti_fork_mutex_lock(&lock);
    int64_t current = due_of(timer);
    bool new_first = false;
    tutti_status status = TUTTI_OK;
    if (!only_earlier || current == NOT_SET || current > due_ns) {
        if (current != NOT_SET) {
            take_out(timer);
        }
        status = due_ns == TTI_NEVER ? TUTTI_OK : start(error);
        if (status == TUTTI_OK && due_ns != TTI_NEVER) {
            put_in(timer, due_ns);
            new_first = first == timer;
        }
    }
    tti_fork_mutex_unlock(&lock);
    if (new_first) {
        pthread_cond_signal(&earlier);
    }
    return status;
}

tutti_status tti_timer_set(struct tti_timer *timer, int64_t due_ns, tutti_error *error)
{
    return set(timer, due_ns, false, error);
}

tutti_status tti_timer_set_earlier_slow(struct tti_timer *timer, int64_t due_ns, tutti_error *error)
{
    return set(timer, due_ns, true, error);
}

void tti_timer_stop(struct tti_timer *timer)
{
    tti_fork_mutex_lock(&lock);
    for (;;) {
        if (due_of(timer) != NOT_SET) {
            take_out(timer);
        }
        if (notifying != timer || inside()) {
            break;
        }
        pthread_cond_wait(&notified, &lock.mutex); /* it may set itself again meanwhile */
    }
    tti_fork_mutex_unlock(&lock);
}

void tti_timer_shutdown(void)
{
    tti_fork_mutex_lock(&lock);
    while (notifying && !inside()) {
        pthread_cond_wait(&notified, &lock.mutex);
    }
    bool ends = running && !first && !notifying;
    pthread_t ending = thread;
    if (ends) {
        running = false; /* a timer that is set from here on starts another thread */
        serial++;
        /* With the lock: the thread sleeps, and cannot take a later signal that is meant for its successor. */
        pthread_cond_broadcast(&earlier);
    }
    tti_fork_mutex_unlock(&lock);
    if (ends) {
        pthread_join(ending, NULL);
    }
}
