/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective in progress: its state, its scratch memory, and the waits for MPI's requests. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_CALL_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_CALL_H

#include "backends/mpi/plugin/library/library.h"
#include "backends/mpi/plugin/poll_loop.h"
#include "backends/mpi/plugin/types.h"

struct tti_mpi_call {
    struct tti_mpi_group *group;
    struct tti_mpi_lane *lane;
    tutti_op *op;
    tutti_error *error;
    bool blocking;
    struct tti_mpi_poll_loop poll_loop;
};

/* The words of tutti_op.prepared: the descriptor (two words), and the arguments of an all_reduce that was one blocking
 * call of MPI. The first word is never 0 then, since no interface of MPI has a datatype that is 0. */
enum { TTI_MPI_PREPARED_TYPE, TTI_MPI_PREPARED_OP, TTI_MPI_PREPARED_DESCRIPTOR };
static_assert(sizeof(MPI_Datatype) <= sizeof(uint64_t) && sizeof(MPI_Op) <= sizeof(uint64_t), "handles of MPI fit");

/* tti_mpi_enter and tti_mpi_leave for a call. A blocking call takes no lock: the library allows calls from several
 * threads. */
static inline void tti_mpi_enter_call(const struct tti_mpi_call *c)
{
    if (!c->blocking) {
        tti_mpi_enter();
    }
}

static inline void tti_mpi_leave_call(const struct tti_mpi_call *c)
{
    if (!c->blocking) {
        tti_mpi_leave();
    }
}

/* At least so many bytes of the lane's scratch memory, or NULL with NO_MEMORY. That fails the group: the other ranks
 * are in the call, since the entry barrier is over. */
void *tti_mpi_scratch(struct tti_mpi_call *c, size_t bytes);
/* The status and sentence of a call in which this rank cannot take part (tutti_op.failed); OK if it can. */
tutti_status tti_mpi_cannot_take_part(const struct tti_mpi_call *c);
/* After a call of MPI that returned `code`; waits for the request unless the call was a blocking one. */
tutti_status tti_mpi_complete(struct tti_mpi_call *c, int code, MPI_Request *request, const char *what);
/* The same for all of the lane's requests. */
tutti_status tti_mpi_complete_all(struct tti_mpi_call *c, int code, const char *what);
/* Waits for all of the lane's requests. OK with *code, MPI's; TIMEOUT without the sentence; else the group has
 * failed. */
tutti_status tti_mpi_await(struct tti_mpi_call *c, int *code);
/* Gives up the lane's requests: receives are cancelled, sends are left to MPI. The records that they read stay
 * unchanged, since the group has failed. */
void tti_mpi_withdraw_requests(struct tti_mpi_call *c);

#endif
