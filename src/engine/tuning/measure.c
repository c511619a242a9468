/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measurement: two new threads, each on a CPU of its own, run for a few milliseconds.
 *
 *   both       exchange one cache line, and copy what the other has just written; with a second partner CPU, if the
 *              system reports one with another third-level cache
 *   thread 0   while thread 1 sleeps: copies and folds inside the second-level cache, from memory and past the caches;
 *              yields while no other thread can run
 *   both       thread 0 wakes thread 1; then both yield to each other on one CPU
 *
 * At the deadline both threads stop, and the figures so far count. Virtual CPUs may be near each other now and far
 * apart later, so one measurement gives one of the two hops. The other may be in the file (calibrate.c).
 */
#include "engine/tuning/measure.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/process/thread.h"
#include "engine/tuning/measure_times.h"

#define STACK ((size_t)256 << 10)

static void run_pair(struct tti_measurement *m, int me)
{
    for (int partner = 1; partner <= m->partners; partner++) {
        if (!tti_measurement_partner(m, me, partner)) {
            return;
        }
    }
    if (me == 0) {
        tti_measurement_alone(m);
    }
    if (m->partners == 0 || tti_measurement_wakes(m, me)) {
        tti_measurement_switches(m, me);
    }
}

static void *thread_0(void *measurement)
{
    struct tti_measurement *m = measurement;
    if (!tti_measurement_pin(m->cpus[0])) { /* then two CPUs cannot be compared */
        atomic_store_explicit(&m->stop, 1, memory_order_relaxed);
        return NULL;
    }
    if (m->partners == 0) { /* thread 1 would run on this CPU, too */
        tti_measurement_alone(m);
        tti_measurement_rouse(m);
        tti_measurement_switches(m, 0);
        return NULL;
    }
    run_pair(m, 0);
    return NULL;
}

static void *thread_1(void *measurement)
{
    struct tti_measurement *m = measurement;
    if (m->partners > 0) {
        run_pair(m, 1);
    } else if (tti_measurement_sleep(m)) {
        tti_measurement_switches(m, 1);
    }
    return NULL;
}

static bool run_threads(struct tti_measurement *m)
{
    pthread_attr_t attributes;
    pthread_t threads[2];
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    pthread_attr_setstacksize(&attributes, STACK);
    const bool first = tti_thread_create(&threads[0], &attributes, thread_0, m) == 0;
    const bool second = first && tti_thread_create(&threads[1], &attributes, thread_1, m) == 0;
    pthread_attr_destroy(&attributes);
    if (first && !second) {
        atomic_store_explicit(&m->stop, 1, memory_order_relaxed);
    }
    if (first) {
        pthread_join(threads[0], NULL);
    }
    if (second) {
        pthread_join(threads[1], NULL);
    }
    return first;
}

/* A figure out of bounds was disturbed. */
static void drop_implausible(struct tti_profile *p)
{
    for (int i = 0; i < TTI_PROFILE_FIELDS; i++) {
        const int64_t value = tti_profile_value(p, i);
        if (value < tti_profile_fields[i].least || value > tti_profile_fields[i].most) {
            tti_profile_set(p, i, 0);
        }
    }
}

bool tti_calibrate_measure(struct tti_profile *profile)
{
    memset(profile, 0, sizeof(*profile));
    struct tti_measurement *m = NULL;
    if (posix_memalign((void **)&m, TTI_MEASUREMENT_LINE, sizeof(*m)) != 0) {
        return false;
    }
    memset(m, 0, sizeof(*m));
    m->partners = tti_cpus_choose(m->cpus) - 1;
    m->partners = m->partners < 0 ? 0 : m->partners;
    m->profile = profile;
    m->pinned = true;
    m->memory = mmap(NULL, TTI_MEASUREMENT_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m->deadline_ns = tti_now_ns() + INT64_C(1000000) * TTI_CALIBRATE_LIMIT_MS;
    const bool good = m->memory != MAP_FAILED && run_threads(m);
    if (m->memory != MAP_FAILED) {
        munmap(m->memory, TTI_MEASUREMENT_MEMORY);
    }
    tti_cpus_describe(m->cpus[0], profile);
    free(m);
    profile->measured_s = (int64_t)time(NULL);
    drop_implausible(profile);
    return good;
}
