/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of the process, which may begin at any moment. MPI_Finalize must not run beside other calls of MPI, so
 * threads of this process leave MPI first:
 *
 *   1. No operation enters MPI any more: `stopping` is set.
 *   2. Every open group fails on this rank, so pending operations end with REVOKED.
 *   3. The exit waits until no thread is inside an operation. A thread in a blocking call of MPI (mpi.blocking=always,
 *      or the creation of a group) gets one second; then the process ends with status 1.
 *   4. This rank sends a last, short call record on each lane and a last envelope. A rank that still needs this one
 *      receives them instead of what it waits for, and gets PEER_LEFT.
 *
 * After an exit with status 0 the process calls MPI_Finalize, which waits for all ranks of the job. If a group has
 * failed, some ranks may never arrive. So MPI_Finalize gets the deadline of the group's calls; then the process ends
 * with status 1, which makes the launcher end the other ranks. Status 0 without MPI_Finalize would not do: Hydra
 * (MPICH) then ends the other ranks without a message and reports success.
 */
#include "backends/mpi/plugin/library/finalize.h"

#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backends/mpi/plugin/closed_groups.h"
#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/open_groups.h"
#include "base/clock.h"
#include "base/error.h"

#define QUIESCE_MS 60000 /* for threads to notice the failure and leave MPI */
#define BLOCKING_MS                                                                                                    \
    1000 /* for threads that cannot notice it in a blocking call; and if the process ends with an error */
#define EXIT_BARRIER_MS 60000 /* for all ranks to arrive at the end; then MPI_Finalize waits for them */
#define CLOSED_MS       1000  /* for the last messages of other ranks; without them MPI_Finalize works, too */
#define POLL_NS         100000

/* ---- stopping ---------------------------------------------------------------------------------------------------- */

/* The collective that a thread of this process is in, or 0. */
static tutti_operation collective_inside(const struct tti_mpi_group *g)
{
    for (int i = 0; i < g->lanes; i++) {
        /* seq_cst: pairs with the store in collectives.c. Either that thread sees that the group has failed, or this
         * thread sees that one */
        const tutti_operation inside = atomic_load_explicit(&g->lane[i].inside, memory_order_seq_cst);
        if (inside != 0) {
            return inside;
        }
    }
    return 0;
}

static void end_group(struct tti_mpi_group *g, void *unused)
{
    tutti_error cause;
    (void)unused;
    tti_error_set(&cause, TUTTI_PEER_LEFT, "rank %d ends its process and leaves the group", g->rank);
    cause.suspect = g->rank;
    cause.scope = TUTTI_SCOPE_GROUP;
    tti_mpi_fail_locally(g, &cause);
}

static void notify_if_retired(struct tti_mpi_group *g, void *fails)
{
    if (g->retired) {
        tti_mpi_notify_left(g, !*(const bool *)fails);
    }
}

/* Where a thread is inside MPI, or NULL; and whether MPI blocks it. */
struct location {
    const char *name;
    bool blocked;
};

static void locate_in_group(struct tti_mpi_group *g, void *user)
{
    struct location *where = user;
    const tutti_operation operation = collective_inside(g);
    if (where->name) {
        return;
    }
    if (operation != 0) {
        *where = (struct location){.name = tutti_operation_name(operation), .blocked = g->blocking};
    } else if (atomic_load_explicit(&g->users, memory_order_seq_cst) > 0) {
        where->name = "a message";
    }
}

static struct location where_inside(void)
{
    struct location where = {0};
    if (tti_mpi_creations() > 0) {
        return (struct location){.name = "the creation of a group", .blocked = true};
    }
    tti_mpi_for_each_open(locate_in_group, &where);
    return where;
}

const char *tti_mpi_quiesce(bool fails)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    const int64_t begun = tti_now_ns();
    struct location where;
    tti_mpi_stop();
    tti_mpi_for_each_open(end_group, NULL);
    while ((where = where_inside()).name) {
        if (tti_now_ns() - begun >= (fails || where.blocked ? BLOCKING_MS : QUIESCE_MS) * INT64_C(1000000)) {
            return where.name;
        }
        nanosleep(&pause, NULL);
    }
    tti_mpi_for_each_open(notify_if_retired, &fails);
    return NULL;
}

/* ---- MPI_Finalize ------------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static bool is_ended; /* under the lock */
static const struct tti_mpi_group *suspect;
static int64_t finalize_limit_ms;

/* The first group of the list that had failed before the process ended. */
static const struct tti_mpi_group *failed_group(const struct tti_mpi_group *g)
{
    while (g && g->retired) {
        g = g->next_failed;
    }
    return g;
}

static void *watchdog(void *unused)
{
    struct timespec until;
    int code = 0;
    (void)unused;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(finalize_limit_ms / 1000 + 1);
    pthread_mutex_lock(&lock);
    while (!is_ended && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&ended, &lock, &until);
    }
    if (!is_ended) {
        fprintf(
            stderr,
            "tutti: mpi: rank %d has waited %lld ms in MPI_Finalize for ranks that do not arrive, after its group of "
            "%d has failed: %s. It ends with status 1, so that the launcher ends the other ranks\n",
            suspect->world_rank, (long long)finalize_limit_ms, suspect->size, suspect->cause.message);
        _exit(1);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static bool start_watchdog(void)
{
    pthread_t thread;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&ended, &clock);
    pthread_condattr_destroy(&clock);
    return pthread_create(&thread, NULL, watchdog, NULL) == 0 && pthread_detach(thread) == 0;
}

/* The process cannot end MPI. No exit handler may run: a thread may be in MPI, and the handlers would free its
 * memory. */
static _Noreturn void give_up(const char *doing)
{
    const struct tti_mpi_group *g = failed_group(tti_mpi_failed_groups());
    char failed[sizeof(g->cause.message) + 64] = "";
    if (g) {
        snprintf(failed, sizeof(failed), "its group of %d has failed (%s), and ", g->size, g->cause.message);
    }
    fprintf(
        stderr,
        "tutti: mpi: rank %d cannot end MPI: %s%s. It ends with status 1, so that the launcher ends the other ranks\n",
        tti_mpi_library.world_rank, failed, doing);
    fflush(NULL);
    _exit(1);
}

/* MPI_Finalize of some libraries (MPICH over UCX) waits until this rank's sends are received, while other ranks wait
 * there for the launcher and receive nothing. So each rank polls MPI until all of them are here. */
static void exit_barrier(void)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), EXIT_BARRIER_MS);
    MPI_Request request;
    int done = 0;
    int code = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (code == MPI_SUCCESS && (code = MPI_Test(&request, &done, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !done &&
           tti_now_ns() < deadline) {
        nanosleep(&pause, NULL);
    }
}

/* MPICH over UCX complains about messages that no rank has received. So this rank receives the last messages for the
 * groups that it has closed: a rank sends its own at the latest before it is here. */
void tti_mpi_await_closed(void)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), CLOSED_MS);
    while (!tti_mpi_free_closed() && tti_now_ns() < deadline) {
        nanosleep(&pause, NULL);
    }
}

void tti_mpi_finalize(int exit_status, void *unused)
{
    int finalized = 1;
    char doing[96];
    (void)unused;
    MPI_Finalized(&finalized);
    if (finalized || getpid() != tti_mpi_library.process) { /* a child of fork cannot use MPI */
        return;
    }
    const bool finalizes = exit_status == 0 && tti_mpi_library.own;
    const char *where = tti_mpi_quiesce(!finalizes);
    if (where && finalizes) {
        snprintf(doing, sizeof(doing), "a thread is still in %s", where);
        give_up(doing);
    }
    if (!finalizes) { /* a failing process does not wait here, so that its launcher notices at once */
        return;
    }
    for (const struct tti_mpi_group *g = failed_group(tti_mpi_failed_groups()); g; g = failed_group(g->next_failed)) {
        const int64_t limit_ms = g->timeout_ms < 0 ? TUTTI_TIMEOUT_MS : g->timeout_ms;
        suspect = g;
        finalize_limit_ms = limit_ms > finalize_limit_ms ? limit_ms : finalize_limit_ms;
    }
    if (suspect) {
        fflush(NULL); /* the watchdog ends the process with _exit */
        if (!start_watchdog()) {
            give_up("no thread can be started to watch over MPI_Finalize");
        }
    }
    exit_barrier();
    MPI_Finalize();
    pthread_mutex_lock(&lock);
    is_ended = true;
    if (suspect) {
        pthread_cond_signal(&ended);
    }
    pthread_mutex_unlock(&lock);
}
