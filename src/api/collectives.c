/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives with equal parts: check the arguments, build the descriptor, hand it on. A compact tensor goes
 * straight through; nothing is allocated on its way. Arguments that count only on the root are looked at only there.
 */
#include <string.h>

#include "api/parts.h"
#include "api/scratch.h"

void tutti_call_init(tutti_call *call)
{
    if (call) {
        memset(call, 0, sizeof(*call));
        call->size = (uint32_t)sizeof(*call);
    }
}

static tutti_status check_reduction(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                                    tutti_reduce_op op, struct tti_view *in, struct tti_view *out)
{
    tutti_status status;
    if ((status = tti_check_tensor(k, input, "input", in)) != TUTTI_OK ||
        (status = tti_check_tensor(k, output, "output", out)) != TUTTI_OK ||
        (status = tti_check_same_shape(k, in, out)) != TUTTI_OK ||
        (status = tti_check_reduce_op(k, op, in->dtype)) != TUTTI_OK) {
        return status;
    }
    return tti_check_in_place(k, in, out);
}

/* Runs a reduction whose two tensors have the same shape; out NULL: the result is not for this rank. */
static tutti_status run_reduction(const struct tti_checker *k, struct tti_view *in, struct tti_view *out,
                                  tutti_reduce_op redop, int32_t root)
{
    tutti_op op = {.dtype = in->dtype, .redop = redop, .root = root, .count = in->count};
    bool in_place = out && tti_views_alias(in, out);
    tutti_status status = tti_scratch_open(k, in, true);
    if (status == TUTTI_OK && out && !in_place) {
        status = tti_scratch_open(k, out, false);
    }
    if (status == TUTTI_OK) {
        op.src = in->memory;
        op.dst = in_place ? in->memory : (out ? out->memory : NULL);
        status = tti_collective_run(k, &op);
    } else {
        status = tti_collective_fail(k, &op, status);
    }
    if (out && !in_place) {
        tti_scratch_close(out, status == TUTTI_OK);
    }
    tti_scratch_close(in, in_place && status == TUTTI_OK);
    return status;
}

tutti_status tutti_all_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                              const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_ALL_REDUCE, "all_reduce", call);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_view in;
    struct tti_view out;
    status = check_reduction(&k, input, output, op, &in, &out);
    return tti_call_end(&c, status == TUTTI_OK ? run_reduction(&k, &in, &out, op, 0) : status);
}

tutti_status tutti_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op, int32_t root,
                          const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_REDUCE, "reduce", call);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_view in;
    struct tti_view out;
    bool on_root = c.rank == root;
    if ((status = tti_check_root(&k, root)) == TUTTI_OK) {
        if (on_root) {
            status = check_reduction(&k, input, output, op, &in, &out);
        } else if ((status = tti_check_tensor(&k, input, "input", &in)) == TUTTI_OK) {
            status = tti_check_reduce_op(&k, op, in.dtype);
        }
    }
    return tti_call_end(&c, status == TUTTI_OK ? run_reduction(&k, &in, on_root ? &out : NULL, op, root) : status);
}

tutti_status tutti_broadcast(tutti_group *group, DLTensor *tensor, int32_t root, const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_BROADCAST, "broadcast", call);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_view view;
    bool on_root = c.rank == root;
    if ((status = tti_check_root(&k, root)) != TUTTI_OK ||
        (status = tti_check_tensor(&k, tensor, "tensor", &view)) != TUTTI_OK) {
        return tti_call_end(&c, status);
    }
    tutti_op op = {.dtype = view.dtype, .root = root, .count = view.count};
    if ((status = tti_scratch_open(&k, &view, on_root)) == TUTTI_OK) {
        op.dst = view.memory;
        status = tti_collective_run(&k, &op);
    } else {
        status = tti_collective_fail(&k, &op, status);
    }
    tti_scratch_close(&view, status == TUTTI_OK && !on_root);
    return tti_call_end(&c, status);
}

/* Runs an operation between a part (in or out) and a joined tensor (in or out); a NULL side is not this rank's. */
static tutti_status run_between(const struct tti_checker *k, struct tti_view *in, struct tti_view *out, tutti_op *op)
{
    tutti_status status = in ? tti_scratch_open(k, in, true) : TUTTI_OK;
    if (status == TUTTI_OK && out) {
        status = tti_scratch_open(k, out, false);
    }
    if (status == TUTTI_OK) {
        op->src = in ? in->memory : NULL;
        op->dst = out ? out->memory : NULL;
        status = tti_collective_run(k, op);
    } else {
        status = tti_collective_fail(k, op, status);
    }
    if (out) {
        tti_scratch_close(out, status == TUTTI_OK);
    }
    if (in) {
        tti_scratch_close(in, false);
    }
    return status;
}

/* Both gathers; off the root (`has_output` false) only the input counts. */
static tutti_status gather(const struct tti_checker *k, const DLTensor *input, const DLTensor *output, int32_t dim,
                           int32_t root, bool has_output)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.root = root, .dim = dim};
    tutti_status status;
    if ((status = tti_check_tensor(k, input, "input", &in)) != TUTTI_OK ||
        (status = tti_check_dim(k, &in, dim)) != TUTTI_OK || (status = tti_check_all_parts(k, &in)) != TUTTI_OK) {
        return status;
    }
    if (has_output && ((status = tti_check_tensor(k, output, "output", &out)) != TUTTI_OK ||
                       (status = tti_check_dim(k, &out, dim)) != TUTTI_OK ||
                       (status = tti_parts_equal(k, &in, &out, dim, &op.recv_parts)) != TUTTI_OK ||
                       (status = tti_check_own_part(k, &in, &out, &op.recv_parts, dim)) != TUTTI_OK)) {
        return status;
    }
    op.dtype = in.dtype;
    op.count = in.count;
    return run_between(k, &in, has_output ? &out : NULL, &op);
}

tutti_status tutti_all_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                              const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_ALL_GATHER, "all_gather", call);
    return status == TUTTI_OK ? tti_call_end(&c, gather(&k, input, output, dim, 0, true)) : status;
}

tutti_status tutti_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim, int32_t root,
                          const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_GATHER, "gather", call);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tti_check_root(&k, root);
    return tti_call_end(&c, status == TUTTI_OK ? gather(&k, input, output, dim, root, c.rank == root) : status);
}

static tutti_status scatter(const struct tti_checker *k, const DLTensor *input, const DLTensor *output, int32_t dim,
                            int32_t root)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.root = root, .dim = dim};
    bool on_root = k->c->rank == root;
    tutti_status status;
    if ((status = tti_check_root(k, root)) != TUTTI_OK ||
        (status = tti_check_tensor(k, output, "output", &out)) != TUTTI_OK ||
        (status = tti_check_dim(k, &out, dim)) != TUTTI_OK || (status = tti_check_all_parts(k, &out)) != TUTTI_OK) {
        return status;
    }
    if (on_root && ((status = tti_check_tensor(k, input, "input", &in)) != TUTTI_OK ||
                    (status = tti_check_dim(k, &in, dim)) != TUTTI_OK ||
                    (status = tti_parts_equal(k, &out, &in, dim, &op.send_parts)) != TUTTI_OK ||
                    (status = tti_check_own_part(k, &out, &in, &op.send_parts, dim)) != TUTTI_OK)) {
        return status;
    }
    op.dtype = out.dtype;
    op.count = out.count;
    return run_between(k, on_root ? &in : NULL, &out, &op);
}

tutti_status tutti_scatter(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim, int32_t root,
                           const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_SCATTER, "scatter", call);
    return status == TUTTI_OK ? tti_call_end(&c, scatter(&k, input, output, dim, root)) : status;
}

static tutti_status reduce_scatter(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                                   tutti_reduce_op redop, int32_t dim)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.redop = redop, .dim = dim};
    tutti_status status;
    if ((status = tti_check_tensor(k, input, "input", &in)) != TUTTI_OK ||
        (status = tti_check_tensor(k, output, "output", &out)) != TUTTI_OK ||
        (status = tti_check_dim(k, &in, dim)) != TUTTI_OK || (status = tti_check_dim(k, &out, dim)) != TUTTI_OK ||
        (status = tti_parts_equal(k, &out, &in, dim, &op.send_parts)) != TUTTI_OK ||
        (status = tti_check_reduce_op(k, redop, in.dtype)) != TUTTI_OK ||
        (status = tti_check_own_part(k, &out, &in, &op.send_parts, dim)) != TUTTI_OK) {
        return status;
    }
    op.dtype = in.dtype;
    op.count = out.count;
    return run_between(k, &in, &out, &op);
}

tutti_status tutti_reduce_scatter(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                  int32_t dim, const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_REDUCE_SCATTER, "reduce_scatter", call);
    return status == TUTTI_OK ? tti_call_end(&c, reduce_scatter(&k, input, output, op, dim)) : status;
}

static tutti_status all_to_all(const struct tti_checker *k, const DLTensor *input, const DLTensor *output, int32_t dim)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.dim = dim};
    tutti_status status;
    if ((status = tti_check_tensor(k, input, "input", &in)) != TUTTI_OK ||
        (status = tti_check_tensor(k, output, "output", &out)) != TUTTI_OK ||
        (status = tti_check_dim(k, &in, dim)) != TUTTI_OK || (status = tti_check_dim(k, &out, dim)) != TUTTI_OK ||
        (status = tti_check_same_shape(k, &in, &out)) != TUTTI_OK ||
        (status = tti_parts_cut(k, &in, dim, &op.send_parts)) != TUTTI_OK) {
        return status;
    }
    if (tti_views_overlap(&in, &out)) {
        return tti_reject(k, "output overlaps input; all_to_all has no in-place form");
    }
    op.recv_parts = op.send_parts;
    op.dtype = in.dtype;
    op.count = in.count;
    return run_between(k, &in, &out, &op);
}

tutti_status tutti_all_to_all(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                              const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_ALL_TO_ALL, "all_to_all", call);
    return status == TUTTI_OK ? tti_call_end(&c, all_to_all(&k, input, output, dim)) : status;
}

tutti_status tutti_barrier(tutti_group *group, const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &c, group, TUTTI_OP_BARRIER, "barrier", call);
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_op op = {.root = 0};
    return tti_call_end(&c, tti_collective_run(&k, &op));
}
