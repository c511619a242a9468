/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of tutti/shape.h. They check shapes as the operations do, with the same error messages, and replace the
 * length of one dimension. Then the output is checked as a tensor, so that its bytes do not overflow.
 */
#include <tutti/shape.h>

#include <inttypes.h>
#include <string.h>

#include "api/collectives/parts.h"
#include "api/group/group.h"
#include "base/error.h"
#include "core/group/group_table.h"
#include "core/messages/transfer.h"

/* One call of this file. */
struct shape_call {
    struct tti_call call;
    struct tti_checker checker;
    struct tti_view input;
    int64_t shape[TUTTI_MAX_NDIM]; /* of the output */
};

/* OK: the group is acquired. */
static tutti_status hold(struct shape_call *q, tutti_group *group, tutti_operation operation, const char *function,
                         tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    memset(&q->call, 0, offsetof(struct tti_call, own_error));
    q->call.group = tti_api_hold(group, function, error, &status);
    if (!q->call.group) {
        return tti_api_finish(error, operation, -1, status);
    }
    q->call.operation = operation;
    q->call.error = error;
    q->call.rank = q->call.group->rank;
    q->call.group_size = q->call.group->size;
    q->checker = (struct tti_checker){.c = &q->call, .function = function};
    return TUTTI_OK;
}

static tutti_status end(struct shape_call *q, tutti_status status)
{
    tti_group_release(q->call.group);
    return tti_api_finish(q->call.error, q->call.operation, q->call.rank, status);
}

/* The output's shape begins as the input's. */
static tutti_status begin(struct shape_call *q, tutti_group *group, tutti_operation operation, const char *function,
                          const DLTensor *input, int32_t *dim, tutti_error *error)
{
    tutti_status status = hold(q, group, operation, function, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if ((status = tti_check_form(&q->checker, input, "input", &q->input)) == TUTTI_OK &&
        (status = tti_check_dim(&q->checker, &q->input, dim)) == TUTTI_OK) {
        memcpy(q->shape, q->input.shape, (size_t)q->input.ndim * sizeof(*q->shape));
    }
    return status;
}

/* Returns the shape, and releases the group. */
static tutti_status finish(struct shape_call *q, tutti_status status, int64_t *shape, int32_t *ndim)
{
    if (!q->call.group) {
        return status;
    }
    if (status == TUTTI_OK && !shape) {
        status = tti_reject(&q->checker, "shape is NULL; it must have room for the %d lengths of the output",
                            (int)q->input.ndim);
    }
    if (status == TUTTI_OK) {
        const DLTensor output = tutti_tensor_nd(NULL, q->input.ndim, q->shape, q->input.dtype);
        struct tti_view view;
        status = tti_check_form(&q->checker, &output, "the output", &view);
    }
    if (status == TUTTI_OK && shape) { /* NULL was refused above, which the analyzer does not see */
        memcpy(shape, q->shape, (size_t)q->input.ndim * sizeof(*shape));
        if (ndim) {
            *ndim = q->input.ndim;
        }
    }
    return end(q, status);
}

tutti_status tutti_all_gather_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                    int32_t *ndim, tutti_error *error)
{
    struct shape_call q;
    tutti_status status = begin(&q, group, TUTTI_OP_ALL_GATHER, "all_gather_shape", input, &dim, error);
    if (status == TUTTI_OK && (status = tti_check_all_parts(&q.checker, &q.input)) == TUTTI_OK &&
        __builtin_mul_overflow(q.shape[dim], (int64_t)q.call.group_size, &q.shape[dim])) {
        status =
            tti_reject(&q.checker, "input is too large: its %" PRId64 " rows times %d ranks do not fit into 63 bits",
                       q.input.shape[dim], (int)q.call.group_size);
    }
    return finish(&q, status, shape, ndim);
}

/* Cuts the input into equal parts; *rows gets the length of one. */
static tutti_status cut(struct shape_call *q, int32_t dim, int64_t *rows)
{
    tutti_parts parts;
    tutti_status status = tti_parts_cut(&q->checker, &q->input, dim, &parts);
    if (status == TUTTI_OK && rows) {
        *rows = parts.each;
    }
    return status;
}

tutti_status tutti_reduce_scatter_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                        int32_t *ndim, tutti_error *error)
{
    struct shape_call q;
    tutti_status status = begin(&q, group, TUTTI_OP_REDUCE_SCATTER, "reduce_scatter_shape", input, &dim, error);
    return finish(&q, status == TUTTI_OK ? cut(&q, dim, &q.shape[dim]) : status, shape, ndim);
}

tutti_status tutti_all_to_all_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                    int32_t *ndim, tutti_error *error)
{
    struct shape_call q;
    tutti_status status = begin(&q, group, TUTTI_OP_ALL_TO_ALL, "all_to_all_shape", input, &dim, error);
    return finish(&q, status == TUTTI_OK ? cut(&q, dim, NULL) : status, shape, ndim);
}

/* The output has the rows of all parts; `own`: the input is one of them. */
static tutti_status sum_rows(struct shape_call *q, int32_t dim, const struct tti_counts *list, bool own)
{
    tutti_status status = tti_parts_sum(&q->checker, list, &q->shape[dim]);
    if (status == TUTTI_OK && own) {
        status = tti_check_own_rows(&q->checker, &q->input, &q->input, dim, list);
    }
    return status;
}

tutti_status tutti_all_gather_v_shape(tutti_group *group, const DLTensor *input, int32_t dim, const int64_t *counts,
                                      int64_t *shape, int32_t *ndim, tutti_error *error)
{
    struct shape_call q;
    const struct tti_counts list = {
        .counts_name = "counts", .displacements_name = "", .counts = counts, .written = true};
    tutti_status status = begin(&q, group, TUTTI_OP_ALL_GATHER, "all_gather_v_shape", input, &dim, error);
    return finish(&q, status == TUTTI_OK ? sum_rows(&q, dim, &list, true) : status, shape, ndim);
}

tutti_status tutti_reduce_scatter_v_shape(tutti_group *group, const DLTensor *input, int32_t dim, const int64_t *counts,
                                          int64_t *shape, int32_t *ndim, tutti_error *error)
{
    struct shape_call q;
    const struct tti_counts list = {.counts_name = "counts", .displacements_name = "", .counts = counts};
    tutti_parts parts;
    tutti_status status = begin(&q, group, TUTTI_OP_REDUCE_SCATTER, "reduce_scatter_v_shape", input, &dim, error);
    if (status == TUTTI_OK && (status = tti_parts_variable(&q.checker, &q.input, dim, &list, &parts)) == TUTTI_OK) {
        q.shape[dim] = counts[q.call.rank];
    }
    return finish(&q, status, shape, ndim);
}

tutti_status tutti_all_to_all_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                      const int64_t *recv_counts, int64_t *shape, int32_t *ndim, tutti_error *error)
{
    struct shape_call q;
    const struct tti_counts list = {
        .counts_name = "recv_counts", .displacements_name = "", .counts = recv_counts, .written = true};
    tutti_status status = begin(&q, group, TUTTI_OP_ALL_TO_ALL, "all_to_all_v_shape", input, &dim, error);
    return finish(&q, status == TUTTI_OK ? sum_rows(&q, dim, &list, false) : status, shape, ndim);
}

tutti_status tutti_tensor_empty(tutti_group *group, tutti_dtype dtype, int32_t ndim, const int64_t *shape,
                                DLManagedTensorVersioned **tensor, tutti_error *error)
{
    struct shape_call q;
    tutti_status status = hold(&q, group, TUTTI_OP_ALLOC, "tensor_empty", error);
    if (status != TUTTI_OK) {
        return status;
    }
    const DLTensor wanted = tutti_tensor_nd(NULL, ndim, shape, dtype);
    struct tti_view view;
    if (!tensor) {
        status = tti_reject(&q.checker, "tensor is NULL; it must point to where the new tensor's address goes");
    } else if (tutti_dtype_size(dtype) == 0) {
        status =
            tti_reject(&q.checker, "dtype is %d, which is no element type (tutti/tensor.h lists them)", (int)dtype);
    } else if ((status = tti_check_form(&q.checker, &wanted, "the tensor", &view)) == TUTTI_OK) {
        DLManagedTensorVersioned *made = tti_managed_tensor(q.call.group, dtype, view.bytes, ndim, shape);
        if (made) {
            *tensor = made;
        } else {
            status =
                tti_error_set(error, TUTTI_NO_MEMORY, "tensor_empty: no memory for a tensor of %zu bytes", view.bytes);
        }
    }
    return end(&q, status);
}
