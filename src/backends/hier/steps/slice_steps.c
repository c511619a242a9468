/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce and reduce begin with a reduce_scatter inside each host; all_reduce and broadcast end with an all_gather
 * there. Cost: that of the inner engine for one chunk.
 */
#include "backends/hier/steps/slice_steps.h"

#include "backends/hier/steps/slices.h"

tutti_status tti_hier_reduce_slices(struct tti_hier_call *c, const struct tti_hier_fold *f, size_t k,
                                    unsigned char *wide, unsigned char *slice, tutti_error *error)
{
    struct tti_slices cut;
    tti_slices_cut(c->s, c->op->count, f->item, k, &cut, c->lane->inside.send_counts);
    tutti_op op = tti_hier_step(c, TUTTI_OP_REDUCE_SCATTER, f->dtype);
    op.redop = f->inside;
    op.scale = c->op->scale;
    op.src = (const unsigned char *)c->op->src + cut.from * c->item;
    if (wide) {
        tti_hier_widen(f, wide, op.src, cut.count);
        op.src = wide;
    }
    op.dst = slice;
    op.count = cut.own;
    op.send_parts = tti_hier_row(c->lane->inside.send_counts, cut.count, f->item);
    return tti_hier_run_intra_host(c, &op, error);
}

tutti_status tti_hier_gather_slices(struct tti_hier_call *c, size_t item, size_t k, tutti_error *error)
{
    struct tti_slices cut;
    tti_slices_cut(c->s, c->op->count, item, k, &cut, c->lane->inside.receive_counts);
    tutti_op op = tti_hier_step(c, TUTTI_OP_ALL_GATHER, c->op->dtype);
    op.dst = (unsigned char *)c->op->dst + cut.from * c->item;
    op.src = (const unsigned char *)op.dst + cut.begin * c->item;
    op.count = cut.own;
    op.recv_parts = tti_hier_row(c->lane->inside.receive_counts, cut.count, c->item);
    return tti_hier_run_intra_host(c, &op, error);
}
