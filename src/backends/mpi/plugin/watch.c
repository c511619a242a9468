/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watch over blocking calls, which cannot look at the time themselves. One thread for the process counts the ticks for which
 * a lane has been in the same call; at the group's deadline it says so on stderr, fails the group, and revokes its
 * communicators where the library has ULFM, which makes the call return. It calls nothing else of MPI.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/error.h"

#define TICK_S 1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER; /* nobody waits for time where there is no group */
static struct tti_mpi_group *groups;                     /* that are watched */
static bool running;

static void report(struct tti_mpi_group *g, int lane)
{
    tutti_error error;
    tti_error_set(
        &error, TUTTI_TIMEOUT,
        "%s: rank %d of %d has been in call %lld of lane %d for %d s; MPI's blocking functions cannot be left "
        "(mpi.blocking=never can)",
        tutti_operation_name(atomic_load_explicit(&g->lane[lane].inside, memory_order_relaxed)), g->rank, g->size,
        (long long)g->lane[lane].seen_call, lane, g->lane[lane].ticks * TICK_S);
    error.scope = TUTTI_SCOPE_GROUP;
    fprintf(stderr, "tutti: %s\n", error.message);
    tti_mpi_abort(g, lane, &error);
}

static void look_at(struct tti_mpi_group *g)
{
    const int64_t patience = g->timeout_ms < 0 ? TUTTI_TIMEOUT_MS : g->timeout_ms;
    for (int i = 0; i < g->lanes; i++) {
        struct tti_mpi_lane *lane = &g->lane[i];
        /* relaxed: a guess that is a tick late does no harm */
        const int64_t call = atomic_load_explicit(&lane->calls, memory_order_relaxed);
        const bool same = atomic_load_explicit(&lane->inside, memory_order_relaxed) != 0 && call == lane->seen_call;
        lane->seen_call = call;
        lane->ticks = same ? lane->ticks + 1 : 0;
        if (same && lane->ticks == (int)(patience / (1000 * TICK_S)) + 1) {
            report(g, i);
        }
    }
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct timespec until;
        while (!groups) {
            pthread_cond_wait(&opened, &lock);
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += TICK_S;
        while (pthread_cond_timedwait(&opened, &lock, &until) != ETIMEDOUT) {
        }
        for (struct tti_mpi_group *g = groups; g; g = g->next_watched) {
            look_at(g);
        }
    }
    return NULL;
}

void tti_mpi_watch(struct tti_mpi_group *g)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    if (!running && pthread_create(&thread, NULL, watch, NULL) == 0) {
        pthread_detach(thread);
        running = true;
    }
    g->next_watched = groups;
    groups = g;
    pthread_cond_signal(&opened);
    pthread_mutex_unlock(&lock);
}

void tti_mpi_unwatch(struct tti_mpi_group *g)
{
    pthread_mutex_lock(&lock);
    for (struct tti_mpi_group **link = &groups; *link; link = &(*link)->next_watched) {
        if (*link == g) {
            *link = g->next_watched;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}
