/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce of n bytes to a root: reduce_scatter inside each host, reduce of the slices to the root's host on all rails in
 * parallel, and there the slices go to the root (reduce_scatter and gather, Rabenseifner 2004).
 *
 * Cost: on the link n bytes out of each other host, if the outer engine combines on the way, and into the root's host n
 * to (H - 1) n, depending on the outer engine. Inside: reduce_scatter of n bytes, and n bytes to the root.
 */
#include "backends/hier/collectives/collectives.h"
#include "backends/hier/steps/fold.h"
#include "backends/hier/steps/pipeline.h"
#include "backends/hier/steps/slice_steps.h"
#include "backends/hier/steps/slices.h"

struct plan {
    struct tti_hier_fold fold;
    unsigned char *slices; /* two */
    unsigned char *wide;   /* a chunk of widened inputs, and two slices of narrow results; NULL: nothing is widened */
    unsigned char *narrow;
    size_t chunk;
    size_t slice;
};

static unsigned char *slice_at(const struct plan *plan, size_t k)
{
    return plan->slices + (k % 2) * plan->slice * plan->fold.item;
}

/* Its result. */
static unsigned char *result_at(const struct plan *plan, size_t k)
{
    return plan->wide ? plan->narrow + (k % 2) * plan->slice * plan->fold.item : slice_at(plan, k);
}

static tutti_status before(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    const struct plan *plan = p->user;
    return tti_hier_reduce_slices(p->c, &plan->fold, k, plan->wide, slice_at(plan, k), error);
}

static tutti_status between(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    const struct plan *plan = p->user;
    const struct tti_hier_fold *f = &plan->fold;
    struct tti_hier_call *c = p->c;
    struct tti_slices cut;
    tti_slices_cut(c->s, c->op->count, f->item, k, &cut, NULL);
    if (cut.own == 0) {
        return TUTTI_OK;
    }
    const int32_t host = c->s->hosts.host_of[c->op->root];
    tutti_op op = tti_hier_step(c, TUTTI_OP_REDUCE, f->dtype);
    op.redop = f->between;
    op.scale = f->scale;
    op.root = host;
    op.src = slice_at(plan, k);
    op.dst = c->s->host == host ? slice_at(plan, k) : NULL;
    op.count = cut.own;
    const tutti_status status = tti_hier_run_inter_host(c, &op, error);
    if (status == TUTTI_OK && f->divisor > 1 && op.dst) {
        tti_hier_fold_finish(f, result_at(plan, k), op.dst, cut.own);
    }
    return status;
}

static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    const struct plan *plan = p->user;
    struct tti_hier_call *c = p->c;
    const struct tti_hosts *h = &c->s->hosts;
    if (c->s->host != h->host_of[c->op->root]) {
        return TUTTI_OK;
    }
    struct tti_lists *lists = &c->lane->inside;
    struct tti_slices cut;
    const int32_t local_ranks = tti_host_ranks(h, c->s->host);
    const bool here = c->s->rank == c->op->root;
    tti_slices_cut(c->s, c->op->count, plan->fold.item, k, &cut, lists->receive_counts);
    for (int32_t local_rank = 0; local_rank < local_ranks; local_rank++) {
        lists->send_counts[local_rank] = local_rank == h->local_rank_of[c->op->root] ? (int64_t)cut.own : 0;
        lists->receive_counts[local_rank] = here ? lists->receive_counts[local_rank] : 0;
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_TO_ALL, c->op->dtype);
    op.src = result_at(plan, k);
    op.dst = here ? (unsigned char *)c->op->dst + cut.from * c->item : NULL;
    op.send_parts = tti_hier_row(lists->send_counts, cut.own, c->item);
    op.recv_parts = tti_hier_row(lists->receive_counts, here ? cut.count : 0, c->item);
    return tti_hier_run_intra_host(c, &op, error);
}

tutti_status tti_hier_reduce(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    struct plan plan = {0};
    tti_hier_fold_make(c, &plan.fold);
    const struct tti_hier_fold *f = &plan.fold;
    plan.chunk = tti_hier_chunk_elements(c->s, f->item);
    plan.slice = tti_slices_most(c->s, f->item);
    const size_t slices = 2 * plan.slice * f->item;
    unsigned char *scratch = tti_hier_scratch(c, f->widened ? 2 * slices + plan.chunk * f->item : slices, error);
    if (!scratch) {
        return error->status;
    }
    plan.slices = scratch;
    plan.narrow = f->widened ? scratch + slices : NULL;
    plan.wide = f->widened ? scratch + 2 * slices : NULL;
    return tti_pipeline_run(c, &steps, &plan, tti_hier_chunk_count(c->op->count, plan.chunk), error);
}
