/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather of n bytes in all. Every rail gathers the parts of its ranks from all hosts, and inside each host the
 * rails exchange their results (a hierarchical all_gather). Ranks without a rail first hand their parts to a rank of
 * their host.
 *
 * Cost: on the link n less the host's own parts into each host, the least, on all rails in parallel. Inside: an
 * all_gather of n bytes and one copy of them to their places.
 */
#include "backends/hier/collectives/collectives.h"
#include "backends/hier/steps/rails.h"

static tutti_status before(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_windows_plan *plan = p->user;
    return tti_window_to_rail(p->c, &plan->windows, k, p->c->op->src, plan->shared[k % 2], error);
}

static tutti_status between(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_windows_plan *plan = p->user;
    struct tti_hier_call *c = p->c;
    int64_t *counts = c->lane->between.receive_counts;
    const size_t all = tti_window_list(c, &plan->windows, k, counts);
    if (all == 0) {
        return TUTTI_OK;
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_GATHER, c->op->dtype);
    op.src = plan->shared[k % 2];
    op.dst = plan->rail[k % 2];
    op.count = (size_t)counts[c->s->host];
    op.recv_parts = tti_hier_row(counts, all, c->item);
    return tti_hier_run_inter_host(c, &op, error);
}

static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_windows_plan *plan = p->user;
    struct tti_hier_call *c = p->c;
    const struct tti_hier *s = c->s;
    int64_t *counts = c->lane->inside.receive_counts;
    size_t all = 0;
    for (int32_t local_rank = 0; local_rank < tti_host_ranks(&s->hosts, s->host); local_rank++) {
        const size_t n = local_rank < s->hosts.rails ? tti_window_rail(&plan->windows, k, local_rank) : 0;
        counts[local_rank] = (int64_t)n;
        all += n;
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_GATHER, c->op->dtype);
    op.src = plan->rail[k % 2];
    op.dst = plan->all;
    op.count = (size_t)counts[s->local_rank];
    op.recv_parts = tti_hier_row(counts, all, c->item);
    const tutti_status status = tti_hier_run_intra_host(c, &op, error);
    if (status == TUTTI_OK) {
        tti_window_unpack(&plan->windows, k, plan->all, &c->op->recv_parts, c->op->dst);
    }
    return status;
}

tutti_status tti_hier_all_gather(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    return tti_windows_run(c, &steps, &c->op->recv_parts, 0, true, error);
}
