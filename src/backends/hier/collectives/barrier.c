/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier in three steps: inside each host, then between local ranks 0 of all hosts, then inside again. A rank leaves
 * the third step only after its host's local rank 0 has returned from the second. By then local rank 0 of every host
 * has entered that, after all ranks of its host. Cost: one small message for each host and round of the outer engine,
 * two inner barriers.
 */
#include "backends/hier/collectives/collectives.h"

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
