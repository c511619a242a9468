/* SPDX-License-Identifier: BSD-3-Clause */
/* Joined tensors between hosts: the windows of one rail, and the buffers that they lie in. */
#include "backends/hier/steps/rails.h"

tutti_status tti_windows_memory(struct tti_hier_call *c, struct tti_windows_plan *plan, size_t item, bool with_all,
                                tutti_error *error)
{
    const struct tti_windows *w = &plan->windows;
    const size_t rail = (tti_windows_rail_most(w) * item + 63) / 64 * 64;
    const size_t all = with_all ? tti_windows_most(w) * item : 0;
    unsigned char *memory = tti_hier_scratch(c, 4 * rail + all, error);
    if (!memory) {
        return error->status;
    }
    for (int i = 0; i < 2; i++) {
        plan->shared[i] = memory + (size_t)(2 * i) * rail;
        plan->rail[i] = memory + (size_t)(2 * i + 1) * rail;
    }
    plan->all = with_all ? memory + 4 * rail : NULL;
    return TUTTI_OK;
}

size_t tti_window_list(const struct tti_hier_call *c, const struct tti_windows *w, size_t k, int64_t *list)
{
    size_t all = 0;
    for (int32_t host = 0; host < c->s->hosts.count; host++) {
        const size_t n = tti_window_host(w, k, c->s->local_rank, host);
        list[host] = (int64_t)n;
        all += n;
    }
    return all;
}

/* With `there`, each host sends its elements to `host`; else `host` sends each host its elements. */
static tutti_status transfer(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                             bool there, tutti_error *error)
{
    const struct tti_windows *w = &plan->windows;
    const struct tti_lists *lists = &c->lane->between;
    int64_t *single = there ? lists->send_counts : lists->receive_counts;
    int64_t *many = there ? lists->receive_counts : lists->send_counts;
    const size_t all = tti_window_list(c, w, k, many);
    if (all == 0) {
        return TUTTI_OK;
    }
    const int64_t own = many[c->s->host];
    const bool is_end = c->s->host == host;
    for (int32_t h = 0; h < c->s->hosts.count; h++) {
        single[h] = h == host ? own : 0;
        many[h] = is_end ? many[h] : 0;
    }
    const tutti_parts few = tti_hier_row(single, (size_t)own, w->unit);
    const tutti_parts joined = tti_hier_row(many, is_end ? all : 0, w->unit);
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_TO_ALL, c->op->dtype);
    op.src = there ? plan->shared[k % 2] : plan->rail[k % 2];
    op.dst = there ? plan->rail[k % 2] : plan->shared[k % 2];
    op.send_parts = there ? few : joined;
    op.recv_parts = there ? joined : few;
    return tti_hier_run_inter_host(c, &op, error);
}

tutti_status tti_window_to_host(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                                tutti_error *error)
{
    return transfer(c, plan, k, host, true, error);
}

tutti_status tti_window_from_host(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                                  tutti_error *error)
{
    return transfer(c, plan, k, host, false, error);
}

tutti_status tti_windows_run(struct tti_hier_call *c, const struct tti_pipeline_steps *steps, const tutti_parts *parts,
                             size_t equal, bool with_all, tutti_error *error)
{
    struct tti_windows_plan plan = {0};
    tti_windows_make(c->s, parts, equal, c->item, &plan.windows);
    const tutti_status status = tti_windows_memory(c, &plan, c->item, with_all, error);
    return status == TUTTI_OK ? tti_pipeline_run(c, steps, &plan, plan.windows.count, error) : status;
}
