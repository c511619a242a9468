/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier: inside each host, then between the ranks in the first seats, then inside once more. Nobody leaves the last one
 * before its host's first seat has come back from the middle one, which all hosts' first seats have entered by then, each
 * after all ranks of its host. Cost: one small message for each host and round of the outer engine, two inner barriers.
 */
#include "backends/hier/state.h"

tutti_status tti_hier_barrier(struct tti_hier_call *c, tutti_error *error)
{
    tutti_op op = tti_hier_step(c, TUTTI_OP_BARRIER, 0);
    c->first = true;
    tutti_status status = tti_hier_run_intra_host(c, &op, error);
    c->first = false;
    if (status == TUTTI_OK && c->s->local_rank == 0) {
        op = tti_hier_step(c, TUTTI_OP_BARRIER, 0);
        status = tti_hier_run_inter_host(c, &op, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    op = tti_hier_step(c, TUTTI_OP_BARRIER, 0);
    return tti_hier_run_intra_host(c, &op, error);
}
