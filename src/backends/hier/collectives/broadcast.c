/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast of n bytes: inside the root's host; then every rail carries one slice from there to the other hosts, which
 * gather the slices inside (scatter and all_gather, as in van de Geijn's broadcast).
 *
 * Cost: on the link n bytes into each other host, on all rails in parallel, by the outer engine's algorithm. Inside: a
 * broadcast on the root's host, an all_gather on the others.
 */
#include "backends/hier/collectives/collectives.h"
#include "backends/hier/steps/pipeline.h"
#include "backends/hier/steps/slice_steps.h"
#include "backends/hier/steps/slices.h"

static bool is_root_host(const struct tti_hier_call *c)
{
    return c->s->host == c->s->hosts.host_of[c->op->root];
}

static tutti_status before(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_hier_call *c = p->c;
    if (!is_root_host(c)) {
        return TUTTI_OK;
    }
    struct tti_slices cut;
    tti_slices_cut(c->s, c->op->count, c->item, k, &cut, NULL);
    tutti_op op = tti_hier_step(c, TUTTI_OP_BROADCAST, c->op->dtype);
    op.dst = (unsigned char *)c->op->dst + cut.from * c->item;
    op.count = cut.count;
    op.root = c->s->hosts.local_rank_of[c->op->root];
    return tti_hier_run_intra_host(c, &op, error);
}

static tutti_status between(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_hier_call *c = p->c;
    struct tti_slices cut;
    tti_slices_cut(c->s, c->op->count, c->item, k, &cut, NULL);
    if (cut.own == 0) {
        return TUTTI_OK;
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_BROADCAST, c->op->dtype);
    op.dst = (unsigned char *)c->op->dst + (cut.from + cut.begin) * c->item;
    op.count = cut.own;
    op.root = c->s->hosts.host_of[c->op->root];
    return tti_hier_run_inter_host(c, &op, error);
}

static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    return is_root_host(p->c) ? TUTTI_OK : tti_hier_gather_slices(p->c, p->c->item, k, error);
}

tutti_status tti_hier_broadcast(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    return tti_pipeline_run(c, &steps, NULL, tti_hier_chunk_count(c->op->count, tti_hier_chunk_elements(c->s, c->item)),
                            error);
}
