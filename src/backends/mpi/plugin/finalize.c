/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of the process, which may come in the middle of anything. MPI_Finalize must not run beside other calls of MPI, so
 * threads of this process are brought out of MPI first:
 *
 *   1. From now on no operation enters MPI: `stopping` is set.
 *   2. Every open group fails on this rank, so operations that wait end REVOKED.
 *   3. The exit waits until no thread is inside an operation. Then it sends a last ticket on each lane and a last letter:
 *      a rank that still needs this one finds them in place of what it waits for, and gets PEER_LEFT. A thread in a blocking call of MPI (mpi.blocking=always, or a
 *      group that is being made) gets a second; then the process ends with status 1.
 *
 * After an exit with status 0 comes MPI_Finalize, which waits for all ranks of the job. If a group has failed, some of them
 * may never come. So it gets the time that the group's calls had, and then the process ends with status 1, which makes the
 * launcher end the others. A status of 0 without MPI_Finalize would not do: Hydra (MPICH) ends the other ranks without a
 * word and calls it success.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/clock.h"
#include "base/error.h"

#define QUIESCE_MS      60000 /* for threads to see that they are to leave MPI */
#define BLOCKING_MS     1000 /* for those that see nothing, since MPI blocks them; and if the process ends with an error */
#define EXIT_BARRIER_MS 60000 /* for all ranks to come to the end; then MPI_Finalize waits for them */
#define LOOK_NS         100000

_Atomic uint32_t tti_mpi_stopping;

/* ---- open groups -------------------------------------------------------------------------------------------------- */

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tti_mpi_group *groups;
static _Atomic int32_t making; /* threads that make or free communicators */

bool tti_mpi_begin_creation(void)
{
    /* seq_cst, as in tti_mpi_use */
    atomic_fetch_add_explicit(&making, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&tti_mpi_stopping, memory_order_seq_cst)) {
        tti_mpi_end_creation();
        return false;
    }
    return true;
}

void tti_mpi_end_creation(void)
{
    /* release: pairs with the load in where_inside, which then finds a new group in the list */
    atomic_fetch_sub_explicit(&making, 1, memory_order_release);
}

void tti_mpi_add_open(struct tti_mpi_group *g)
{
    pthread_mutex_lock(&groups_lock);
    g->next_open = groups;
    groups = g;
    pthread_mutex_unlock(&groups_lock);
}

void tti_mpi_remove_open(struct tti_mpi_group *g)
{
    pthread_mutex_lock(&groups_lock);
    for (struct tti_mpi_group **link = &groups; *link; link = &(*link)->next_open) {
        if (*link == g) {
            *link = g->next_open;
            break;
        }
    }
    pthread_mutex_unlock(&groups_lock);
}

void tti_mpi_for_each_open(void (*look)(struct tti_mpi_group *g))
{
    pthread_mutex_lock(&groups_lock);
    for (struct tti_mpi_group *g = groups; g && !atomic_load_explicit(&tti_mpi_stopping, memory_order_relaxed);
         g = g->next_open) {
        look(g);
    }
    pthread_mutex_unlock(&groups_lock);
}

/* ---- stopping ----------------------------------------------------------------------------------------------------- */

/* The collective in which a thread of this process is, or 0. */
static tutti_operation collective_inside(const struct tti_mpi_group *g)
{
    for (int i = 0; i < g->lanes; i++) {
        /* seq_cst: pairs with the store in run(); either the thread sees that the group has failed, or this sees the thread */
        const tutti_operation inside = atomic_load_explicit(&g->lane[i].inside, memory_order_seq_cst);
        if (inside != 0) {
            return inside;
        }
    }
    return 0;
}

static void end_group(struct tti_mpi_group *g)
{
    tutti_error cause;
    tti_error_set(&cause, TUTTI_PEER_LEFT, "rank %d ends its process", g->rank);
    cause.suspect = g->rank;
    cause.scope = TUTTI_SCOPE_GROUP;
    tti_mpi_fail_locally(g, &cause);
}

static void notify_left(void)
{
    pthread_mutex_lock(&groups_lock);
    for (struct tti_mpi_group *g = groups; g; g = g->next_open) {
        if (g->retired) {
            tti_mpi_notify_left(g);
        }
    }
    pthread_mutex_unlock(&groups_lock);
}

/* Where a thread still is, in words, NULL if none is inside MPI; and whether MPI blocks it. */
static const char *where_inside(bool *blocked)
{
    const char *where = NULL;
    pthread_mutex_lock(&groups_lock);
    *blocked = atomic_load_explicit(&making, memory_order_seq_cst) > 0;
    if (*blocked) {
        where = "the making of a group";
    }
    for (const struct tti_mpi_group *g = groups; g && !where; g = g->next_open) {
        const tutti_operation operation = collective_inside(g);
        if (operation != 0) {
            where = tutti_operation_name(operation);
            *blocked = g->blocking;
        } else if (atomic_load_explicit(&g->users, memory_order_seq_cst) > 0) {
            where = "a message";
        }
    }
    pthread_mutex_unlock(&groups_lock);
    return where;
}

const char *tti_mpi_quiesce(bool fails)
{
    const struct timespec nap = {.tv_nsec = LOOK_NS};
    const int64_t begun = tti_now_ns();
    const char *where;
    bool blocked = false;
    pthread_mutex_lock(&groups_lock);
    /* seq_cst: pairs with tti_mpi_use. Under the lock, so that the watch is not inside MPI. */
    atomic_store_explicit(&tti_mpi_stopping, 1, memory_order_seq_cst);
    for (struct tti_mpi_group *g = groups; g; g = g->next_open) {
        end_group(g);
    }
    pthread_mutex_unlock(&groups_lock);
    while ((where = where_inside(&blocked))) {
        if (tti_now_ns() - begun >= (fails || blocked ? BLOCKING_MS : QUIESCE_MS) * INT64_C(1000000)) {
            return where;
        }
        nanosleep(&nap, NULL);
    }
    notify_left();
    return NULL;
}

/* ---- MPI_Finalize ------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static bool is_ended; /* under the lock */
static const struct tti_mpi_group *suspect;
static int64_t finalize_limit_ms;

/* The first group from there on that had failed before the process ended. */
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
        fprintf(stderr,
                "tutti: mpi: rank %d has waited %lld ms in MPI_Finalize for ranks that do not come, after its group of "
                "%d has failed: %s. It ends with status 1, so that the launcher ends the others\n",
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

/* The process cannot end MPI. Nothing else of it may run: a thread is in MPI, whose memory the libraries' ends would take. */
static _Noreturn void give_up(const char *doing)
{
    const struct tti_mpi_group *g = failed_group(tti_mpi_failed_groups());
    char failed[sizeof(g->cause.message) + 64] = "";
    if (g) {
        snprintf(failed, sizeof(failed), "its group of %d has failed (%s), and ", g->size, g->cause.message);
    }
    fprintf(stderr,
            "tutti: mpi: rank %d cannot end MPI: %s%s. It ends with status 1, so that the launcher ends the others\n",
            tti_mpi_library.world_rank, failed, doing);
    fflush(NULL);
    _exit(1);
}

/* MPI_Finalize of some libraries (MPICH over UCX) waits for what this rank has sent, while other ranks wait there for the
 * launcher and take nothing in. So all ranks take in what comes until they all are here. */
static void exit_barrier(void)
{
    const struct timespec nap = {.tv_nsec = LOOK_NS};
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), EXIT_BARRIER_MS);
    MPI_Request request;
    int done = 0;
    int code = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (code == MPI_SUCCESS && (code = MPI_Test(&request, &done, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !done &&
           tti_now_ns() < deadline) {
        nanosleep(&nap, NULL);
    }
}

void tti_mpi_finalize(int exit_status, void *unused)
{
    int finalized = 1;
    char doing[96];
    (void)unused;
    MPI_Finalized(&finalized);
    if (finalized || getpid() != tti_mpi_library.process) { /* a child of fork has no share in MPI */
        return;
    }
    const bool finalizes = exit_status == 0 && tti_mpi_library.own;
    const char *where = tti_mpi_quiesce(!finalizes);
    if (where && finalizes) {
        snprintf(doing, sizeof(doing), "a thread is still in %s", where);
        give_up(doing);
    }
    if (!finalizes) { /* a process that fails shall not wait here: its launcher is to see it */
        return;
    }
    for (const struct tti_mpi_group *g = failed_group(tti_mpi_failed_groups()); g; g = failed_group(g->next_failed)) {
        const int64_t limit_ms = g->timeout_ms < 0 ? TUTTI_TIMEOUT_MS : g->timeout_ms;
        suspect = g;
        finalize_limit_ms = limit_ms > finalize_limit_ms ? limit_ms : finalize_limit_ms;
    }
    if (suspect) {
        fflush(NULL); /* the guard has no time for it */
        if (!start_watchdog()) {
            give_up("there is no thread to watch over MPI_Finalize");
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
