/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite relies on deadlines to get back from each operation. A backend that ignores them would hold it up for ever.
 *
 * The ranks of a process count their steps: calls, their results, and blocks of data that they generate or compare. A
 * thread for each rank looks whether the count has changed. If it has not for LOOKS times in a row, the rank hangs: the
 * thread prints the case and the latest operation, and ends the program; on rank 0 it counts the failure and prints the
 * report before. The looks together take ten times the deadline of an operation. Looks are counted and not time, so the
 * limit does not pass while the program is stopped, or while the machine is too busy to run this thread.
 */
#include "check/watchdog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process/thread.h"
#include "check/report.h"
#include "trace/find.h"

enum { LOOKS = 50, DEADLINES = 10, LEAST_MS = 20000 };

/* Looks between the sentences of all ranks and the report of rank 0; and until the other ranks end, since a launcher
 * ends a job with its first rank. */
enum { REPORT_AFTER = 2, END_AFTER = 20 };

struct tti_check_watchdog {
    int rank;
    int64_t look_ns; /* between two looks */
    pthread_t thread;
    pthread_cond_t stopped;
    /* under the mutex */
    pthread_mutex_t mutex;
    bool is_stopped;
    const char *collective;
    char name[96];
    int64_t started_ns; /* of the case */
    struct tti_check_report *report;
};

/* Relaxed: it orders nothing. */
static atomic_ulong steps;

void tti_check_watchdog_step(void)
{
    atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
}

/* The operation in which the rank is, by the flight recorder of this process. */
static void latest_operation(int rank, char *text, size_t capacity)
{
    struct tti_found found = {0};
    const char *why = NULL;
    snprintf(text, capacity, "unknown");
    if (tti_find_in_process(&found, (int32_t)getpid(), NULL, &why)) {
        tti_record_last_text(&found.records[found.count - 1], rank, text, capacity);
    }
    tti_found_free(&found);
}

static void sleep_for(int64_t ns)
{
    const struct timespec duration = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&duration, NULL);
}

/* The mutex stays locked: the rank, if it goes on after all, reports nothing. */
static _Noreturn void end_program(struct tti_check_watchdog *w)
{
    char operation[160];
    latest_operation(w->rank, operation, sizeof(operation));
    fprintf(stderr, "tutti check: rank %d: %s/%s: the rank hangs: no step for %lld s; its latest operation: %s\n",
            w->rank, w->collective, w->name, (long long)(LOOKS * w->look_ns / 1000000000), operation);
    sleep_for((w->report ? REPORT_AFTER : END_AFTER) * w->look_ns);
    if (w->report) {
        tti_check_report_add(w->report, w->collective, w->name, TTI_CHECK_FAILED, tti_now_ns() - w->started_ns);
        tti_check_report_finish(w->report, "Stopped early: a rank hangs; see above.");
    }
    _exit(1); /* what exit() calls may wait for the operation */
}

static void *watch(void *user)
{
    struct tti_check_watchdog *w = user;
    unsigned long seen = 0;
    int looks = 0;
    pthread_mutex_lock(&w->mutex);
    while (!w->is_stopped) {
        const int64_t until = tti_now_ns() + w->look_ns;
        const struct timespec next = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
        while (!w->is_stopped && pthread_cond_timedwait(&w->stopped, &w->mutex, &next) == 0) {
        }
        const unsigned long now = atomic_load_explicit(&steps, memory_order_relaxed);
        looks = now == seen ? looks + 1 : 0;
        seen = now;
        if (looks >= LOOKS && !w->is_stopped) {
            end_program(w);
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

struct tti_check_watchdog *tti_check_watchdog_start(int rank, int64_t timeout_ms)
{
    struct tti_check_watchdog *w = calloc(1, sizeof(*w));
    if (!w) {
        return NULL;
    }
    const int64_t limit_ms = DEADLINES * timeout_ms;
    pthread_condattr_t monotonic;
    w->rank = rank;
    w->look_ns = 1000000 * (limit_ms > LEAST_MS ? limit_ms : LEAST_MS) / LOOKS;
    tti_check_watchdog_case(w, "suite", "start", NULL);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->stopped, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (tti_thread_create(&w->thread, NULL, watch, w) != 0) {
        free(w);
        return NULL;
    }
    return w;
}

void tti_check_watchdog_stop(struct tti_check_watchdog *w)
{
    pthread_mutex_lock(&w->mutex);
    w->is_stopped = true;
    pthread_cond_signal(&w->stopped);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->stopped);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

void tti_check_watchdog_hold(struct tti_check_watchdog *w)
{
    pthread_mutex_lock(&w->mutex);
}

void tti_check_watchdog_release(struct tti_check_watchdog *w)
{
    pthread_mutex_unlock(&w->mutex);
}

void tti_check_watchdog_case(struct tti_check_watchdog *w, const char *collective, const char *name,
                             struct tti_check_report *report)
{
    w->collective = collective;
    snprintf(w->name, sizeof(w->name), "%s", name);
    w->started_ns = tti_now_ns();
    w->report = report;
}
