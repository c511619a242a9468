/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group fails. Apart from ULFM's revoke, MPI has no function for it. So the rank that fails sends the cause to
 * every other rank in a failure notice, and waiting ranks poll for notices every millisecond. The communicators of a
 * failed group are never freed, since operations of MPI may still be in progress on them.
 *
 * Cost: n - 1 messages of 512 bytes from each rank that notices a failure by itself.
 */
#include "backends/mpi/plugin/failure.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backends/mpi/plugin/closed_groups.h"
#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/open_groups.h"
#include "base/error.h"

/* MPI may still use the memory of a failed group, so it is never freed. This list keeps it reachable for leak checkers
 * and for finalize.c. */
static struct tti_mpi_group *_Atomic failed_groups;

const struct tti_mpi_group *tti_mpi_failed_groups(void)
{
    return atomic_load_explicit(&failed_groups, memory_order_acquire); /* pairs with the release in keep_failed */
}

static void keep_failed(struct tti_mpi_group *g)
{
    g->kept = true;
    g->next_failed = atomic_load_explicit(&failed_groups, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&failed_groups, &g->next_failed, g, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

/* Records the first cause; false if there is one already. */
static bool record_cause(struct tti_mpi_group *g, const tutti_error *cause)
{
    pthread_mutex_lock(&g->lock);
    const bool first = atomic_load_explicit(&g->failed, memory_order_relaxed) == TUTTI_OK;
    if (first) {
        g->cause = *cause;
        g->cause.size = (uint32_t)sizeof(g->cause);
        /* seq_cst, which includes a release for the cause: pairs with tti_mpi_has_failed */
        atomic_store_explicit(&g->failed, cause->status != TUTTI_OK ? cause->status : TUTTI_INTERNAL,
                              memory_order_seq_cst);
        keep_failed(g);
    }
    pthread_mutex_unlock(&g->lock);
    return first;
}

static void notify_others(struct tti_mpi_group *g)
{
    for (int r = 0; r < g->size; r++) {
        if (r != g->rank) {
            tti_mpi_enter();
            MPI_Isend(&g->cause, (int)sizeof(g->cause), MPI_BYTE, r, TTI_MPI_TAG_FAILURE, g->control,
                      &g->notifications[r]);
            tti_mpi_leave();
        }
    }
}

void tti_mpi_fail(struct tti_mpi_group *g, const tutti_error *cause)
{
    if (record_cause(g, cause)) {
        notify_others(g);
        atomic_fetch_add_explicit(&g->messages.changes, 1, memory_order_release);
    }
}

void tti_mpi_fail_locally(struct tti_mpi_group *g, const tutti_error *cause)
{
    g->retired = record_cause(g, cause);
    atomic_fetch_add_explicit(&g->messages.changes, 1, memory_order_release);
}

static void send_last(const struct tti_mpi_group *g, int rank, int bytes, int tag, MPI_Comm comm)
{
    MPI_Request request;
    if (MPI_Isend(&g->left_envelope, bytes, MPI_BYTE, rank, tag, comm, &request) == MPI_SUCCESS) {
        MPI_Request_free(&request);
    }
}

void tti_mpi_notify_left(struct tti_mpi_group *g, bool finalizes)
{
    g->left_envelope = (struct tti_mpi_envelope_head){.data_tag = TTI_MPI_RANK_LEFT};
    tti_mpi_enter();
    for (int r = 0; r < g->size; r++) {
        if (r == g->rank) {
            continue;
        }
        send_last(g, r, (int)sizeof(g->left_envelope), TTI_MPI_TAG_ENVELOPE, g->control);
        for (int i = 0; i < g->lanes && !g->blocking; i++) {
            const bool ended_between = finalizes && g->lane[i].ended_well;
            send_last(g, r, ended_between ? TTI_MPI_LEFT_BETWEEN : TTI_MPI_LEFT_INSIDE, TTI_MPI_TAG_ENTRY,
                      g->lane[i].comm);
        }
    }
    tti_mpi_leave();
}

tutti_status tti_mpi_peer_left(struct tti_mpi_group *g, const char *what, int rank, tutti_error *error)
{
    tti_error_set(error, TUTTI_PEER_LEFT, "%s: rank %d has ended its process, and rank %d still waits for it", what,
                  rank, g->rank);
    error->suspect = rank;
    error->scope = TUTTI_SCOPE_GROUP;
    tti_mpi_fail(g, error);
    return TUTTI_PEER_LEFT;
}

tutti_status tti_mpi_poll_left(struct tti_mpi_group *g, const struct tti_mpi_lane *lane, tutti_error *error)
{
    for (int r = 0; r < g->size; r++) {
        int found = 0;
        int bytes = 0;
        MPI_Status status;
        tti_mpi_enter();
        if (r != g->rank && MPI_Iprobe(r, TTI_MPI_TAG_ENTRY, lane->comm, &found, &status) == MPI_SUCCESS && found) {
            MPI_Get_count(&status, MPI_BYTE, &bytes);
        }
        tti_mpi_leave();
        if (bytes == TTI_MPI_LEFT_INSIDE) {
            return tti_mpi_peer_left(g, tutti_operation_name(atomic_load_explicit(&lane->inside, memory_order_relaxed)),
                                     r, error);
        }
    }
    return TUTTI_OK;
}

/* The lowest rank that has closed the group and will not make this rank's call on the lane; -1: there is none. */
static int find_closed(struct tti_mpi_group *g, int lane, int64_t call)
{
    int rank = 0;
    pthread_mutex_lock(&g->lock);
    while (g->closed_count > 0 && rank < g->size && g->last[rank].calls[lane] >= call) {
        rank++;
    }
    const bool found = g->closed_count > 0 && rank < g->size;
    pthread_mutex_unlock(&g->lock);
    return found ? rank : -1;
}

tutti_status tti_mpi_poll_closed(struct tti_mpi_group *g, const struct tti_mpi_lane *lane, tutti_error *error)
{
    const int index = (int)(lane - g->lane);
    const int64_t call = atomic_load_explicit(&lane->calls, memory_order_relaxed); /* this thread's own call */
    tti_mpi_receive_closed(g);
    const int rank = find_closed(g, index, call);
    if (rank < 0) {
        return TUTTI_OK;
    }
    tti_error_set(error, TUTTI_PEER_LEFT,
                  "%s: rank %d has destroyed the group, and rank %d waits for it in call %lld of "
                  "lane %d",
                  tutti_operation_name(atomic_load_explicit(&lane->inside, memory_order_relaxed)), rank, g->rank,
                  (long long)call, index);
    error->suspect = rank;
    error->scope = TUTTI_SCOPE_GROUP;
    tti_mpi_fail(g, error);
    return TUTTI_PEER_LEFT;
}

static void poll_for_failures(struct tti_mpi_group *g)
{
    int found = 0;
    MPI_Message message;
    MPI_Status status;
    tutti_error cause;
    tti_mpi_enter();
    int code = MPI_Improbe(MPI_ANY_SOURCE, TTI_MPI_TAG_FAILURE, g->control, &found, &message, &status);
    if (code == MPI_SUCCESS && found) {
        code = MPI_Mrecv(&cause, (int)sizeof(cause), MPI_BYTE, &message, MPI_STATUS_IGNORE);
    }
    tti_mpi_leave();
    if (code == MPI_SUCCESS && found) {
        cause.message[sizeof(cause.message) - 1] = '\0';
        cause.suspect = cause.suspect >= 0 && cause.suspect < g->size ? cause.suspect : status.MPI_SOURCE;
        record_cause(g, &cause);
    }
}

tutti_status tti_mpi_check(struct tti_mpi_group *g, bool poll, tutti_error *error)
{
    if (poll && g->size > 1 && !tti_mpi_has_failed(g)) {
        poll_for_failures(g);
    }
    return tti_mpi_has_failed(g) ? tti_error_revoked(error, &g->cause) : TUTTI_OK;
}

tutti_status tti_mpi_finalizing_error(const struct tti_mpi_group *g, tutti_error *error)
{
    tti_error_set(error, TUTTI_REVOKED, "the process of rank %d is ending, and MPI with it", g->rank);
    error->suspect = g->rank;
    error->scope = TUTTI_SCOPE_GROUP;
    return TUTTI_REVOKED;
}

tutti_status tti_mpi_failure(void *state, tutti_error *error)
{
    struct tti_mpi_group *g = state;
    tutti_error unused;
    if (tti_mpi_use(g)) {
        tti_mpi_check(g, true, &unused); /* between calls no other thread polls */
        tti_mpi_unuse(g);
    }
    const tutti_status failed = atomic_load_explicit(&g->failed, memory_order_acquire);
    if (failed != TUTTI_OK && error) {
        *error = g->cause;
        error->scope = TUTTI_SCOPE_GROUP;
    }
    return failed;
}

/* Makes blocking calls return, where the library has ULFM. Not with MPICH: its function ends the process in 4.0. */
static void revoke(struct tti_mpi_group *g)
{
#if defined(OPEN_MPI)
    int (*revoke_function)(MPI_Comm comm);
    *(void **)&revoke_function = dlsym(RTLD_DEFAULT, "MPIX_Comm_revoke");
    for (int i = 0; revoke_function && g->blocking && i < g->lanes; i++) {
        revoke_function(g->lane[i].comm); /* no lock: the level is MPI_THREAD_MULTIPLE */
    }
#else
    (void)g;
#endif
}

void tti_mpi_abort(void *state, int32_t lane, const tutti_error *cause)
{
    struct tti_mpi_group *g = state;
    tutti_error with = *cause;
    const int32_t awaited = lane >= 0 ? atomic_load_explicit(&g->lane[lane].awaited, memory_order_relaxed) : -1;
    if (awaited >= 0 && with.suspect < 0) {
        const size_t used = strlen(with.message);
        with.suspect = awaited;
        snprintf(with.message + used, sizeof(with.message) - used, "; rank %d has not arrived at the call before it",
                 awaited);
    }
    if (tti_mpi_use(g)) {
        tti_mpi_fail(g, &with);
        revoke(g);
        tti_mpi_unuse(g);
    }
}
