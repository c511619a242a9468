/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives with parts of different length. Rows of an output outside all parts stay unchanged. So a strided
 * output is packed before the call, too: unpacking then writes back the old values. Each function and its asynchronous
 * form are written out, as their prototypes are: only the checks between them can be shared.
 */
#include <tutti/work.h>

#include "api/async/enqueue.h"
#include "api/collectives/frame.h"
#include "api/collectives/parts.h"
#include "base/error.h"
#include "engine/descriptor.h"

static void describe_variable(const struct tti_checker *k, const struct tti_view *in, const struct tti_view *out,
                              const tutti_op *op)
{
    k->task->op = *op;
    k->task->op.dtype = in->dtype;
    k->task->op.shape_code = tti_shape_code(in->ndim, in->shape, op->dim);
    k->task->op.src = tti_collective_memory(k, in, TTI_PACK);
    k->task->op.dst = tti_collective_memory(k, out, TTI_PACK | TTI_UNPACK);
    k->task->result = out->tensor;
}

static tutti_status check_both(const struct tti_checker *k, const DLTensor *input, const DLTensor *output, int32_t *dim,
                               struct tti_view *in, struct tti_view *out)
{
    tutti_status status;
    if ((status = tti_check_tensor(k, input, "input", in)) != TUTTI_OK ||
        (status = tti_check_output(k, output, "output", out)) != TUTTI_OK ||
        (status = tti_check_dim(k, in, dim)) != TUTTI_OK) {
        return status;
    }
    return tti_check_dim(k, out, dim);
}

static tutti_status all_gather_v(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                                 int32_t dim, const struct tti_counts *list)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {0};
    tutti_status status;
    if ((status = check_both(k, input, output, &dim, &in, &out)) != TUTTI_OK ||
        (status = tti_parts_variable(k, &out, dim, list, &op.recv_parts)) != TUTTI_OK ||
        (status = tti_check_own_rows(k, &in, &out, dim, list)) != TUTTI_OK ||
        (status = tti_check_own_part(k, &in, &out, &op.recv_parts, dim)) != TUTTI_OK) {
        return status;
    }
    op.dim = dim;
    op.count = in.count;
    describe_variable(k, &in, &out, &op);
    return TUTTI_OK;
}

tutti_status tutti_all_gather_v(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                const int64_t *counts, const int64_t *displacements, const tutti_call *call)
{
    if (tti_enqueues(call)) {
        tutti_work *work = NULL;
        return tti_enqueued(tutti_all_gather_v_async(group, input, output, dim, counts, displacements, call, &work),
                            &work, call);
    }
    struct tti_task task;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &task, group, TUTTI_OP_ALL_GATHER, "all_gather_v", call);
    struct tti_counts list = {"counts", "displacements", counts, displacements, true};
    return status == TUTTI_OK ? tti_collective_run(&k, all_gather_v(&k, input, output, dim, &list)) : status;
}

tutti_status tutti_all_gather_v_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                      const int64_t *counts, const int64_t *displacements, const tutti_call *call,
                                      tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_collective_begin_async(&k, group, TUTTI_OP_ALL_GATHER, "all_gather_v_async", call, work);
    struct tti_counts list = {"counts", "displacements", counts, displacements, true};
    return status == TUTTI_OK ? tti_collective_start(&k, all_gather_v(&k, input, output, dim, &list), work) : status;
}

static tutti_status reduce_scatter_v(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                                     tutti_reduce_op redop, int32_t dim, const struct tti_counts *list)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.redop = redop};
    tutti_status status;
    if ((status = check_both(k, input, output, &dim, &in, &out)) != TUTTI_OK ||
        (status = tti_parts_variable(k, &in, dim, list, &op.send_parts)) != TUTTI_OK ||
        (status = tti_check_own_rows(k, &out, &in, dim, list)) != TUTTI_OK ||
        (status = tti_check_reduce_op(k, redop, in.dtype)) != TUTTI_OK ||
        (status = tti_check_own_part(k, &out, &in, &op.send_parts, dim)) != TUTTI_OK) {
        return status;
    }
    op.dim = dim;
    op.count = out.count;
    describe_variable(k, &in, &out, &op);
    return TUTTI_OK;
}

tutti_status tutti_reduce_scatter_v(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                    int32_t dim, const int64_t *counts, const tutti_call *call)
{
    if (tti_enqueues(call)) {
        tutti_work *work = NULL;
        return tti_enqueued(tutti_reduce_scatter_v_async(group, input, output, op, dim, counts, call, &work), &work,
                            call);
    }
    struct tti_task task;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &task, group, TUTTI_OP_REDUCE_SCATTER, "reduce_scatter_v", call);
    struct tti_counts list = {"counts", "displacements", counts, NULL, false};
    return status == TUTTI_OK ? tti_collective_run(&k, reduce_scatter_v(&k, input, output, op, dim, &list)) : status;
}

tutti_status tutti_reduce_scatter_v_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                          tutti_reduce_op op, int32_t dim, const int64_t *counts,
                                          const tutti_call *call, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status =
        tti_collective_begin_async(&k, group, TUTTI_OP_REDUCE_SCATTER, "reduce_scatter_v_async", call, work);
    struct tti_counts list = {"counts", "displacements", counts, NULL, false};
    return status == TUTTI_OK ? tti_collective_start(&k, reduce_scatter_v(&k, input, output, op, dim, &list), work)
                              : status;
}

static tutti_status all_to_all_v(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                                 int32_t dim, const struct tti_counts *sent, const struct tti_counts *received)
{
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {0};
    tutti_status status;
    if ((status = check_both(k, input, output, &dim, &in, &out)) != TUTTI_OK ||
        (status = tti_check_same_rows(k, &in, &out, dim)) != TUTTI_OK ||
        (status = tti_parts_variable(k, &in, dim, sent, &op.send_parts)) != TUTTI_OK ||
        (status = tti_parts_variable(k, &out, dim, received, &op.recv_parts)) != TUTTI_OK) {
        return status;
    }
    if (tti_views_overlap(&in, &out)) {
        return tti_reject(k, "output overlaps input; all_to_all has no in-place form");
    }
    if (k->c->group_size == 1 && *sent->counts != *received->counts) { /* backends compare what two ranks say */
        return tti_error_set(k->c->error, TUTTI_MISMATCH,
                             "%s: the only rank sends %lld rows to itself but expects %lld", k->function,
                             (long long)*sent->counts, (long long)*received->counts);
    }
    op.dim = dim;
    op.count = in.count;
    describe_variable(k, &in, &out, &op);
    return TUTTI_OK;
}

tutti_status tutti_all_to_all_v(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                const int64_t *send_counts, const int64_t *send_displacements,
                                const int64_t *recv_counts, const int64_t *recv_displacements, const tutti_call *call)
{
    if (tti_enqueues(call)) {
        tutti_work *work = NULL;
        return tti_enqueued(tutti_all_to_all_v_async(group, input, output, dim, send_counts, send_displacements,
                                                     recv_counts, recv_displacements, call, &work),
                            &work, call);
    }
    struct tti_task task;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &task, group, TUTTI_OP_ALL_TO_ALL, "all_to_all_v", call);
    struct tti_counts sent = {"send_counts", "send_displacements", send_counts, send_displacements, false};
    struct tti_counts received = {"recv_counts", "recv_displacements", recv_counts, recv_displacements, true};
    return status == TUTTI_OK ? tti_collective_run(&k, all_to_all_v(&k, input, output, dim, &sent, &received)) : status;
}

tutti_status tutti_all_to_all_v_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                      const int64_t *send_counts, const int64_t *send_displacements,
                                      const int64_t *recv_counts, const int64_t *recv_displacements,
                                      const tutti_call *call, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_collective_begin_async(&k, group, TUTTI_OP_ALL_TO_ALL, "all_to_all_v_async", call, work);
    struct tti_counts sent = {"send_counts", "send_displacements", send_counts, send_displacements, false};
    struct tti_counts received = {"recv_counts", "recv_displacements", recv_counts, recv_displacements, true};
    return status == TUTTI_OK ? tti_collective_start(&k, all_to_all_v(&k, input, output, dim, &sent, &received), work)
                              : status;
}
