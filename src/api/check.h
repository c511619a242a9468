/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks of every operation's arguments, once, before any communication. A backend relies on them. A failed check
 * writes one sentence with the function, the argument, its value and the valid ones. The group stays usable, because no
 * other rank has been notified of the call.
 */
#ifndef TTI_API_CHECK_H
#define TTI_API_CHECK_H

#include <stdbool.h>

#include "core/async/start.h"
#include "core/call/task.h"

/* The call that is checked. `function` begins its sentences ("all_gather_v"). */
struct tti_checker {
    struct tti_call *c;
    struct tti_task *task; /* collectives: filled by the checks */
    struct tti_work *work; /* asynchronous calls, else NULL */
    const char *function;
    tutti_callback callback; /* withheld until the start: an error before means no callback */
};

/* A tensor that has passed its checks. */
struct tti_view {
    const DLTensor *tensor; /* the caller's */
    const char *name;       /* of the argument */
    const int64_t *shape;
    int32_t ndim;
    tutti_dtype dtype;
    size_t element; /* bytes */
    size_t count;
    size_t bytes;
    unsigned char *data; /* first element; NULL only if there are no bytes */
    uintptr_t begin;     /* the span of the elements; begin == end if there are none */
    uintptr_t end;
    bool compact;
};

/* INVALID_ARGUMENT with a sentence that begins with the function's name. */
__attribute__((format(printf, 2, 3))) tutti_status tti_reject(const struct tti_checker *k, const char *format, ...);

/* A synchronous call: tti_call_begin, with the callback withheld. */
tutti_status tti_checker_begin(struct tti_checker *k, struct tti_call *c, tutti_group *group, tutti_operation operation,
                               const char *function, const tutti_call *options);

/* An asynchronous one. INVALID_ARGUMENT if the pointer for the work is NULL. */
tutti_status tti_checker_begin_async(struct tti_checker *k, tutti_group *group, tutti_operation operation,
                                     const char *function, const tutti_call *options, tutti_work **work);

/* Checks shape and dtype only, and fills the view except its memory. */
tutti_status tti_check_form(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                            struct tti_view *view);

/* Checks an input, with any strides, and fills the view. */
tutti_status tti_check_tensor(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                              struct tti_view *view);

/* The same for an output: it must not overlap itself. */
tutti_status tti_check_output(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                              struct tti_view *view);

/* Both tensors of an operation that keeps the shape: equal shapes, and no overlap except exact alias (in_place). */
tutti_status tti_check_pair(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                            struct tti_view *in, struct tti_view *out, bool *in_place);

tutti_status tti_check_same_dtype(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b);
tutti_status tti_check_same_shape(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b);

/* The reduce op is known and defined on the dtype; PREMUL_SUM's factor fits it. */
tutti_status tti_check_reduce_op(const struct tti_checker *k, tutti_reduce_op op, tutti_dtype dtype);

/* The limit of a wait is -1 (TUTTI_FOREVER), 0 or positive. For functions on handles, which have no checker. */
tutti_status tti_check_limit(const char *function, int64_t limit_ms, tutti_error *error);

tutti_status tti_check_root(const struct tti_checker *k, int32_t root);

/* -ndim <= *dim < ndim. Makes negative values positive, so that ranks and backends have one number for each dimension.
 * A tensor without dimensions counts as [1] from here on. */
tutti_status tti_check_dim(const struct tti_checker *k, struct tti_view *view, int32_t *dim);

/* The stride of a dimension in elements, also if strides is NULL. */
int64_t tti_view_stride(const struct tti_view *view, int32_t dim);

/* Whether two of its indices reach the same element. */
bool tti_view_self_overlaps(const struct tti_view *view);

/* Whether both have elements and their spans overlap. */
bool tti_views_overlap(const struct tti_view *a, const struct tti_view *b);

#endif
