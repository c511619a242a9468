/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce of n bytes over H hosts of L ranks: reduce_scatter inside each host, so that every rank of a rail has the
 * host's sum of one slice; all_reduce of the slices on all rails in parallel; all_gather inside. This is the
 * hierarchical all_reduce of Jia et al., "Highly scalable deep learning training system with mixed-precision", 2018.
 *
 * Cost on the link: an all_reduce of n / L bytes by the outer engine on each of L rails. With a ring that is 2 n (H -
 * 1) / H bytes out of a host and as many into it, the least. A flat ring needs as much if ranks are numbered host by
 * host, and up to L times as much if they are interleaved. Inside: reduce_scatter and all_gather of n bytes.
 *
 * With op->wire the steps inside are of f32, and the step between hosts is in the format of the wire
 * (backends/wire_all_reduce.c). Each host's sum is rounded once, and the sum of all once. Slices are whole blocks of
 * the format.
 */
#include "backends/hier/collectives/collectives.h"
#include "backends/hier/steps/fold.h"
#include "backends/hier/steps/pipeline.h"
#include "backends/hier/steps/slice_steps.h"
#include "backends/hier/steps/slices.h"
#include "backends/wire_all_reduce.h"

struct plan {
    struct tti_hier_fold fold;
    unsigned char *wide; /* two chunks of widened inputs; NULL: the steps run in the output itself */
    size_t chunk;
    unsigned char *packed; /* the own slice on its way between hosts; NULL: it is sent as it is */
};

static const struct plan *plan_of(const struct tti_pipeline *p)
{
    return p->user;
}

/* The own slice while it is reduced. */
static unsigned char *slice_at(const struct tti_pipeline *p, const struct tti_slices *cut, size_t k)
{
    const struct plan *plan = plan_of(p);
    unsigned char *chunk = plan->wide ? plan->wide + (k % 2) * plan->chunk * plan->fold.item
                                      : (unsigned char *)p->c->op->dst + cut->from * plan->fold.item;
    return chunk + cut->begin * plan->fold.item;
}

static tutti_status before(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    const struct plan *plan = plan_of(p);
    struct tti_slices cut;
    tti_slices_cut(p->c->s, p->c->op->count, plan->fold.item, k, &cut, NULL);
    unsigned char *wide = plan->wide ? plan->wide + (k % 2) * plan->chunk * plan->fold.item : NULL;
    return tti_hier_reduce_slices(p->c, &plan->fold, k, wide, slice_at(p, &cut, k), error);
}

static tutti_status run_between(void *self, tutti_op *op, tutti_error *error)
{
    return tti_hier_run_inter_host(self, op, error);
}

/* The own slice in smaller chunks, if it is longer than one may be. */
static tutti_status reduce_packed(struct tti_hier_call *c, const struct plan *plan, tutti_op *slice, tutti_error *error)
{
    const struct tti_wire_engine rail = {
        .rank = c->s->rail->rank, .size = c->s->rail->world_size, .run = run_between, .self = c};
    tutti_status status = TUTTI_OK;
    for (size_t done = 0; status == TUTTI_OK && done < slice->count;) {
        tutti_op part = *slice;
        part.src = part.dst = (float *)slice->dst + done;
        part.count = slice->count - done < TTI_WIRE_MOST ? slice->count - done : TTI_WIRE_MOST;
        status = tti_wire_all_reduce(&rail, &part, plan->packed, error);
        done += part.count;
    }
    return status;
}

static tutti_status between(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    const struct tti_hier_fold *f = &plan_of(p)->fold;
    struct tti_hier_call *c = p->c;
    struct tti_slices cut;
    tti_slices_cut(c->s, c->op->count, f->item, k, &cut, NULL);
    if (cut.own == 0) {
        return TUTTI_OK;
    }
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_REDUCE, f->dtype);
    op.redop = f->between;
    op.scale = f->scale;
    op.src = op.dst = slice_at(p, &cut, k);
    op.count = cut.own;
    op.wire = c->op->wire;
    const tutti_status status =
        op.wire != TUTTI_WIRE_FULL ? reduce_packed(c, plan_of(p), &op, error) : tti_hier_run_inter_host(c, &op, error);
    if (status == TUTTI_OK && f->divisor > 1) {
        tti_hier_fold_finish(f, (unsigned char *)c->op->dst + (cut.from + cut.begin) * c->item, op.dst, cut.own);
    }
    return status;
}

static tutti_status after(struct tti_pipeline *p, size_t k, tutti_error *error)
{
    return tti_hier_gather_slices(p->c, plan_of(p)->fold.item, k, error);
}

tutti_status tti_hier_all_reduce(struct tti_hier_call *c, tutti_error *error)
{
    static const struct tti_pipeline_steps steps = {.before = before, .between = between, .after = after};
    struct plan plan = {0};
    tti_hier_fold_make(c, &plan.fold);
    plan.chunk = tti_hier_chunk_elements(c->s, plan.fold.item);
    if (plan.fold.widened && !(plan.wide = tti_hier_scratch(c, 2 * plan.chunk * plan.fold.item, error))) {
        return error->status;
    }
    if (c->op->wire != TUTTI_WIRE_FULL && c->s->rail) { /* f32, which is never widened */
        const size_t most = tti_slices_most(c->s, plan.fold.item);
        const size_t bytes =
            tti_wire_memory(c->op->wire, c->s->rail->world_size, most < TTI_WIRE_MOST ? most : TTI_WIRE_MOST);
        if (!(plan.packed = tti_hier_scratch(c, bytes, error))) {
            return error->status;
        }
    }
    return tti_pipeline_run(c, &steps, &plan, tti_hier_chunk_count(c->op->count, plan.chunk), error);
}
