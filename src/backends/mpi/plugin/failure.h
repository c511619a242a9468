/* SPDX-License-Identifier: BSD-3-Clause */
/* How a group fails, and how its ranks learn of it. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_FAILURE_H
#define TTI_BACKENDS_MPI_PLUGIN_FAILURE_H

#include "backends/mpi/plugin/types.h"

/* Fails the group, unless it has failed already, and notifies the other ranks. */
void tti_mpi_fail(struct tti_mpi_group *g, const tutti_error *cause);
/* At the end of the process: fails the group on this rank only. */
void tti_mpi_fail_locally(struct tti_mpi_group *g, const tutti_error *cause);
/* Afterwards, when no thread is in MPI any more: ranks that need this one get PEER_LEFT instead of waiting for it.
 * `finalizes`: the process calls MPI_Finalize. */
void tti_mpi_notify_left(struct tti_mpi_group *g, bool finalizes);

/* PEER_LEFT, which fails the group: `what` has waited for that rank. */
tutti_status tti_mpi_peer_left(struct tti_mpi_group *g, const char *what, int rank, tutti_error *error);
/* For a call that waits for data: PEER_LEFT if a rank has left before it had ended this call. */
tutti_status tti_mpi_poll_left(struct tti_mpi_group *g, const struct tti_mpi_lane *lane, tutti_error *error);
/* For any collective: PEER_LEFT if a rank has closed the group without making this call. */
tutti_status tti_mpi_poll_closed(struct tti_mpi_group *g, const struct tti_mpi_lane *lane, tutti_error *error);
/* OK, or REVOKED with the cause. `poll`: also receives failure notices of other ranks. */
tutti_status tti_mpi_check(struct tti_mpi_group *g, bool poll, tutti_error *error);

static inline bool tti_mpi_has_failed(const struct tti_mpi_group *g)
{
    /* seq_cst: after the store of `inside`, see finalize.c. As an acquire it pairs with the store in failure.c, so the
     * cause is complete. */
    return atomic_load_explicit(&g->failed, memory_order_seq_cst) != TUTTI_OK;
}

/* REVOKED, after tti_mpi_use has returned false. */
tutti_status tti_mpi_finalizing_error(const struct tti_mpi_group *g, tutti_error *error);

/* The groups of this process that have failed, the last one first, linked by next_failed. They are never freed. */
const struct tti_mpi_group *tti_mpi_failed_groups(void);

/* As in tutti_backend_ops. */
tutti_status tti_mpi_failure(void *state, tutti_error *error);
void tti_mpi_abort(void *state, int32_t lane, const tutti_error *cause);

#endif
