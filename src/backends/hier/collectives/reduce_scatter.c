/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter of n bytes: inside each host every rail gets the host's sums of the parts of its ranks, and reduces
 * them between hosts, so that each host keeps those of its own ranks. Ranks without a rail get theirs inside.
 *
 * Cost: on the link n (H - 1) / H bytes out of each host with even hosts, the least, on all rails in parallel. Inside:
 * a reduce_scatter of n bytes, and one copy of them before it.
 */
#include "backends/hier/collectives/collectives.h"
#include "backends/hier/steps/fold.h"
#include "backends/hier/steps/pipeline.h"
#include "backends/hier/steps/rails.h"

struct plan {
    struct tti_windows_plan common;
    struct tti_hier_fold fold;
    unsigned char *given; /* a window of the inputs before they are widened, or NULL */
};

static tutti_status before(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct plan *plan = p->user;
    const struct tti_windows *w = &plan->common.windows;
    struct tti_hier_call *c = p->c;
    const struct tti_hier *s = c->s;
    int64_t *counts = c->lane->inside.send_counts;
    size_t all = 0;
    for (int32_t local_rank = 0; local_rank < tti_host_ranks(&s->hosts, s->host); local_rank++) {
        const size_t n = local_rank < s->hosts.rails ? tti_window_rail(w, k, local_rank) : 0;
        counts[local_rank] = (int64_t)n;
        all += n;
    }
    tti_window_pack(w, k, c->op->src, &c->op->send_parts, plan->given ? plan->given : plan->common.all);
    if (plan->given) {
        tti_hier_widen(&plan->fold, plan->common.all, plan->given, all);
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_REDUCE_SCATTER, plan->fold.dtype);
    op.redop = plan->fold.inside;
    op.scale = c->op->scale;
    op.src = plan->common.all;
    op.dst = plan->common.rail[k % 2];
    op.count = (size_t)counts[s->local_rank];
    op.send_parts = tti_hier_row(counts, all, plan->fold.item);
    return tti_hier_run_intra_host(c, &op, error);
}

static tutti_status between(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct plan *plan = p->user;
    struct tti_hier_call *c = p->c;
    int64_t *counts = c->lane->between.send_counts;
    const size_t all = tti_window_list(c, &plan->common.windows, k, counts);
    if (all == 0) {
        return TUTTI_OK;
    }
    const size_t own = (size_t)counts[c->s->host];
    unsigned char *shared = plan->common.shared[k % 2];
    tutti_op op = tti_hier_step(c, TUTTI_OP_REDUCE_SCATTER, plan->fold.dtype);
    op.redop = plan->fold.between;
    op.scale = plan->fold.scale;
    op.src = plan->common.rail[k % 2];
    op.dst = shared;
    op.count = own;
    op.send_parts = tti_hier_row(counts, all, plan->fold.item);
    const tutti_status status = tti_hier_run_inter_host(c, &op, error);
    if (status == TUTTI_OK && plan->fold.divisor > 1) {
        /* the host's sums have been used: the results of another type fit there */
        unsigned char *to = plan->fold.widened ? plan->common.rail[k % 2] : shared;
        tti_hier_fold_finish(&plan->fold, to, shared, own);
    }
    return status;
}

static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct plan *plan = p->user;
    const unsigned char *result = plan->fold.widened ? plan->common.rail[k % 2] : plan->common.shared[k % 2];
    return tti_window_from_rail(p->c, &plan->common.windows, k, result, p->c->op->dst, error);
}

tutti_status tti_hier_reduce_scatter(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    struct plan plan = {0};
    tti_hier_fold_make(c, &plan.fold);
    struct tti_windows *w = &plan.common.windows;
    tti_windows_make(c->s, &c->op->send_parts, 0, c->item, w);
    /* a window of wide elements, and one of narrow elements behind it */
    const size_t item = plan.fold.item + (plan.fold.widened ? c->item : 0);
    tutti_status status = tti_windows_memory(c, &plan.common, item, true, error);
    if (status != TUTTI_OK) {
        return status;
    }
    plan.given = plan.fold.widened ? plan.common.all + tti_windows_most(w) * plan.fold.item : NULL;
    return tti_pipeline_run(c, &steps, &plan, w->count, error);
}
