/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather to a root: every rail gathers the parts of its ranks on the root's host, where they go to the root. Cost: on
 * the link the parts of the other hosts, once; inside the root's host all parts, and one copy of them to their places.
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
    return tti_window_to_host(p->c, p->user, k, p->c->s->hosts.host_of[p->c->op->root], error);
}

/* The first step of scatter, the other way round. */
static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    struct tti_windows_plan *plan = p->user;
    struct tti_hier_call *c = p->c;
    const struct tti_hosts *h = &c->s->hosts;
    const int32_t root = c->op->root;
    if (c->s->host != h->host_of[root]) {
        return TUTTI_OK;
    }
    const tutti_status status =
        tti_window_gather_local(c, &plan->windows, k, h->local_rank_of[root], plan->rail[k % 2], plan->all, error);
    if (status == TUTTI_OK && c->s->rank == root) {
        tti_window_unpack(&plan->windows, k, plan->all, &c->op->recv_parts, c->op->dst);
    }
    return status;
}

tutti_status tti_hier_gather(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    return tti_windows_run(c, &steps, NULL, c->op->count, c->s->rank == c->op->root, error);
}
