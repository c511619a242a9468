/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watchdog of groups with blocking calls (mpi.blocking=always). Such a call can check neither its deadline nor
 * failure notices. One thread of the process does both for all groups, once a tick. A group that has failed on another
 * rank then fails here at its next call. A call that may never end is reported on stderr: at once if the group has
 * failed, else each time that another deadline has passed. The watchdog ends no call: if one rank gave up, the others
 * would stay in a call that never ends.
 */
#include "backends/mpi/plugin/watchdog.h"

#include <stdio.h>
#include <time.h>

#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/open_groups.h"

#define TICK_S 1

static void report(const struct tti_mpi_group *g, int lane, const char *why)
{
    fprintf(stderr, "tutti: %s: rank %d of %d has been in call %lld of lane %d for %d s; %s\n",
            tutti_operation_name(atomic_load_explicit(&g->lane[lane].inside, memory_order_relaxed)), g->rank, g->size,
            (long long)g->lane[lane].seen_call, lane, g->lane[lane].ticks * TICK_S, why);
}

static void check_group(struct tti_mpi_group *g, void *unused)
{
    (void)unused;
    /* relaxed: tti_mpi_stop writes it under the lock that is held here */
    if (!g->blocking || g->size == 1 || atomic_load_explicit(&tti_mpi_stopping, memory_order_relaxed)) {
        return;
    }
    const int64_t limit_ms = g->timeout_ms < 0 ? TUTTI_TIMEOUT_MS : g->timeout_ms;
    const int limit_ticks = (int)((limit_ms + 1000 * TICK_S - 1) / (1000 * TICK_S));
    tutti_error error;
    const bool failed = tti_mpi_check(g, true, &error) != TUTTI_OK;
    for (int i = 0; i < g->lanes; i++) {
        struct tti_mpi_lane *lane = &g->lane[i];
        /* relaxed: a value that is one tick old does no harm */
        const int64_t call = atomic_load_explicit(&lane->calls, memory_order_relaxed);
        const bool same = atomic_load_explicit(&lane->inside, memory_order_relaxed) != 0 && call == lane->seen_call;
        lane->seen_call = call;
        lane->ticks = same ? lane->ticks + 1 : 0;
        if (same && failed && !lane->reported) {
            lane->reported = true;
            report(g, i, error.message);
        } else if (same && !failed && lane->ticks % limit_ticks == 0) {
            report(
                g, i,
                "a blocking call of MPI cannot be left; mpi.blocking=never has deadlines and names the ranks that are "
                "late");
        }
    }
}

static void *run(void *unused)
{
    const struct timespec tick = {.tv_sec = TICK_S};
    (void)unused;
    while (!atomic_load_explicit(&tti_mpi_stopping, memory_order_relaxed)) {
        nanosleep(&tick, NULL);
        tti_mpi_for_each_open(check_group, NULL);
    }
    return NULL;
}

void tti_mpi_start_watchdog(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool running;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    if (!running && pthread_create(&thread, NULL, run, NULL) == 0) {
        pthread_detach(thread);
        running = true;
    }
    pthread_mutex_unlock(&lock);
}
