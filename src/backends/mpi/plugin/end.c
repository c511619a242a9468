/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ending MPI when the process ends. MPI_Finalize waits for all ranks of the job. That is what everybody expects, unless a
 * group has failed: then some of them may be in calls that never end. So it gets the time that the group's own calls had,
 * and then the process ends with a word and a status that make the launcher end the others. A process of whose own threads one
 * is in such a call may not finalize MPI at all.
 *
 * A status of 0 without MPI_Finalize would not do: Hydra (MPICH) ends the other ranks without a word and calls it success.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backends/mpi/plugin/plugin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static bool is_ended; /* under the lock */
static const struct tti_mpi_group *suspect;
static int64_t patience_ms;

static void *guard(void *unused)
{
    struct timespec until;
    int code = 0;
    (void)unused;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(patience_ms / 1000 + 1);
    pthread_mutex_lock(&lock);
    while (!is_ended && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&ended, &lock, &until);
    }
    if (!is_ended) {
        fprintf(stderr,
                "tutti: mpi: rank %d has waited %lld ms in MPI_Finalize for ranks that do not come, after its group of "
                "%d has failed: %s. It ends with status 1, so that the launcher ends the others\n",
                suspect->world_rank, (long long)patience_ms, suspect->size, suspect->cause.message);
        _exit(1);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static bool start_guard(void)
{
    pthread_t thread;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&ended, &clock);
    pthread_condattr_destroy(&clock);
    return pthread_create(&thread, NULL, guard, NULL) == 0 && pthread_detach(thread) == 0;
}

/* The call of a failed group in which a thread of this process still is, or 0. */
static tutti_operation operation_inside(const struct tti_mpi_group *g)
{
    for (int i = 0; i < g->lanes; i++) {
        const tutti_operation inside = atomic_load_explicit(&g->lane[i].inside, memory_order_relaxed);
        if (inside != 0) {
            return inside;
        }
    }
    return 0;
}

/* Remaining handlers of exit run, at least on Linux. */
static void give_up(const struct tti_mpi_group *g, const char *doing)
{
    fprintf(stderr,
            "tutti: mpi: rank %d cannot end MPI: its group of %d has failed (%s), and %s. It ends with status 1, so "
            "that the launcher ends the others\n",
            g->world_rank, g->size, g->cause.message, doing);
    exit(1);
}

void tti_mpi_end(int exit_status, void *unused)
{
    int finalized = 1;
    (void)unused;
    MPI_Finalized(&finalized);
    if (exit_status != 0 || finalized) { /* who fails shall not wait here: its launcher is to see it */
        return;
    }
    for (const struct tti_mpi_group *g = tti_mpi_failed_groups(); g; g = g->next_failed) {
        const int64_t patience = g->timeout_ms < 0 ? TUTTI_TIMEOUT_MS : g->timeout_ms;
        const tutti_operation inside = operation_inside(g);
        if (inside != 0) {
            char doing[80];
            snprintf(doing, sizeof(doing), "a thread is still in %s", tutti_operation_name(inside));
            give_up(g, doing);
        }
        suspect = g;
        patience_ms = patience > patience_ms ? patience : patience_ms;
    }
    if (suspect) {
        fflush(NULL); /* the guard has no time for it */
        if (!start_guard()) {
            give_up(suspect, "there is no thread to watch over MPI_Finalize");
        }
    }
    MPI_Finalize();
    pthread_mutex_lock(&lock);
    is_ended = true;
    if (suspect) {
        pthread_cond_signal(&ended);
    }
    pthread_mutex_unlock(&lock);
}
