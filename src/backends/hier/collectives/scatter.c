/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter from a root: it hands the parts to the rails of its host, each of which carries the parts of its ranks to all
 * hosts. Ranks without a rail get theirs inside. Cost: on the link the parts of the other hosts, once; inside the
 * root's host one copy of all parts, and all parts.
 */
#include "backends/hier/collectives/collectives.h"
#include "backends/hier/steps/rails.h"

static tutti_status before(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_windows_plan *plan = p->user;
    struct tti_hier_call *c = p->c;
    const struct tti_hosts *h = &c->s->hosts;
    const int32_t root = c->op->root;
    if (c->s->host != h->host_of[root]) {
        return TUTTI_OK;
    }
    if (c->s->rank == root) {
        tti_window_pack(&plan->windows, k, c->op->src, &c->op->send_parts, plan->all);
    }
    return tti_window_scatter_local(c, &plan->windows, k, h->local_rank_of[root], plan->all, plan->rail[k % 2], error);
}

static tutti_status between(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    return tti_window_from_host(p->c, p->user, k, p->c->s->hosts.host_of[p->c->op->root], error);
}

static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_windows_plan *plan = p->user;
    return tti_window_from_rail(p->c, &plan->windows, k, plan->shared[k % 2], p->c->op->dst, error);
}

tutti_status tti_hier_scatter(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    return tti_windows_run(c, &steps, NULL, c->op->count, c->s->rank == c->op->root, error);
}
