/* SPDX-License-Identifier: BSD-3-Clause */
/* The only rank of a group copies or folds its part of the input to its part of the output: row by row, if a tensor has
 * rows. */
#include "tensor/solo.h"

#include <stdbool.h>

#include "kernels/kernels.h"
#include "tensor/dtype.h"
#include "tensor/parts.h"

void tti_run_solo(const tutti_op *op)
{
    const tutti_parts whole = {.outer = 1};
    const tutti_parts *from = &whole;
    const tutti_parts *to = &whole;
    const size_t item = tti_dtype_size(op->dtype);
    size_t bytes = op->count * item;
    bool folds = false;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        folds = true;
        break;
    case TUTTI_OP_REDUCE_SCATTER:
        folds = true;
        from = op->send_parts.outer <= 1 ? &op->send_parts : &whole; /* the only part has all rows */
        break;
    case TUTTI_OP_SCATTER:
        from = &op->send_parts;
        break;
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        to = &op->recv_parts;
        break;
    case TUTTI_OP_ALL_TO_ALL:
        from = &op->send_parts;
        to = &op->recv_parts;
        bytes = tti_parts_bytes(from, 0);
        break;
    default: /* barrier, broadcast */
        return;
    }
    const struct tti_fold fold = {
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? &op->scale : NULL};
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at;
        const void *in = tti_parts_at(from, 0, op->src, at, &n);
        void *out = tti_parts_at(to, 0, op->dst, at, &n);
        if (folds) {
            tti_fold(out, &in, 1, n / item, &fold);
        } else if (in != out) {
            tti_copy_cached(out, in, n);
        }
    }
}
