/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks that every operation makes of its arguments, once, before anything is sent. What passes here is what a
 * backend may rely on. Each check that fails writes one sentence that names the function, the argument, what it was and
 * what is allowed; the group stays usable because nobody has been told of the call yet.
 */
#ifndef TTI_API_CHECK_H
#define TTI_API_CHECK_H

#include <stdbool.h>

#include "core/call/task.h"
#include "core/membership/start.h"

/* Who is checking: `function` is what sentences begin with ("all_gather_v"). */
struct tti_checker {
    struct tti_call *c;
    struct tti_task *task; /* collectives: to be filled */
    struct tti_work *work; /* asynchronous calls, else NULL */
    const char *function;
    tutti_callback callback; /* kept back until the operation starts: an error before that means no callback */
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
    uintptr_t begin;     /* what the elements span; begin == end if there are none */
    uintptr_t end;
    bool compact;
};

/* INVALID_ARGUMENT with a sentence behind the function's name. */
__attribute__((format(printf, 2, 3))) tutti_status tti_reject(const struct tti_checker *k, const char *format, ...);

/* A synchronous call: tti_call_begin, with the callback kept back. */
tutti_status tti_checker_begin(struct tti_checker *k, struct tti_call *c, tutti_group *group, tutti_operation operation,
                               const char *function, const tutti_call *options);

/* An asynchronous one. Without a place for the work: INVALID_ARGUMENT. */
tutti_status tti_checker_begin_async(struct tti_checker *k, tutti_group *group, tutti_operation operation,
                                     const char *function, const tutti_call *options, tutti_work **work);

/* The same for collectives, whose checks then fill k->task. BAD_STATE inside a batch of this thread. */
tutti_status tti_collective_begin(struct tti_checker *k, struct tti_task *task, tutti_group *group,
                                  tutti_operation operation, const char *function, const tutti_call *options);
tutti_status tti_collective_begin_async(struct tti_checker *k, tutti_group *group, tutti_operation operation,
                                        const char *function, const tutti_call *options, tutti_work **work);

/* The end of a collective's function: runs or starts it if the checks went well. */
tutti_status tti_collective_run(const struct tti_checker *k, tutti_status checked);
tutti_status tti_collective_start(const struct tti_checker *k, tutti_status checked, tutti_work **work);

/* tutti_all_gather for what the library itself exchanges: in host memory, on the group's engine for that, wherever its tensors
 * lie. */
tutti_status tti_all_gather_on_host(tutti_group *group, const DLTensor *input, DLTensor *output,
                                    const tutti_call *call);

/* What the backend sees of a tensor: its data, or a compact stand-in (TTI_PACK, TTI_UNPACK; see core/call/task.h). */
void *tti_collective_memory(const struct tti_checker *k, const struct tti_view *view, unsigned what);

/* Shape and dtype alone, and what follows from them: fills the view but for its memory. */
tutti_status tti_check_form(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                            struct tti_view *view);

/* Fills the view, or says what is wrong with the tensor. It is read, so its strides may be any: negative, or 0. */
tutti_status tti_check_tensor(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                              struct tti_view *view);

/* The same for a tensor that is written: it must not overlap itself. */
tutti_status tti_check_output(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                              struct tti_view *view);

/* Both tensors of an operation that keeps the shape: equal shapes, and no overlap but exact alias (in_place). */
tutti_status tti_check_pair(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                            struct tti_view *in, struct tti_view *out, bool *in_place);

tutti_status tti_check_same_dtype(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b);
tutti_status tti_check_same_shape(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b);

/* The reduce op is known and defined on the dtype; PREMUL_SUM's factor fits it. */
tutti_status tti_check_reduce_op(const struct tti_checker *k, tutti_reduce_op op, tutti_dtype dtype);

tutti_status tti_check_root(const struct tti_checker *k, int32_t root);

/* -ndim <= *dim < ndim; negative ones count from the end and become what they stand for, so that ranks and backends know
 * one number for each dimension. A tensor without dimensions counts as [1] from here on. */
tutti_status tti_check_dim(const struct tti_checker *k, struct tti_view *view, int32_t *dim);

/* The stride of a dimension in elements, also of a tensor that does not spell them out. */
int64_t tti_view_stride(const struct tti_view *view, int32_t dim);

/* Two of its indices reach the same element. */
bool tti_view_self_overlaps(const struct tti_view *view);

/* Exactly the same elements in the same order: what "in place" means. */
bool tti_views_alias(const struct tti_view *a, const struct tti_view *b);

/* Both have elements and their spans meet. */
bool tti_views_overlap(const struct tti_view *a, const struct tti_view *b);

/* Either no byte in common, or exact alias. */
tutti_status tti_check_in_place(const struct tti_checker *k, const struct tti_view *input,
                                const struct tti_view *output);

#endif
