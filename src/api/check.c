/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of tensors, reduce ops and roots. A compact tensor, the common case, costs a loop over the shape and a few
 * comparisons. Only strided tensors and errors cost more.
 */
#include "api/check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/call/task.h"
#include "core/group/group_state.h"
#include "tensor/dtype.h"
#include "tensor/strided.h"

tutti_status tti_reject(const struct tti_checker *k, const char *format, ...)
{
    char sentence[sizeof(k->c->error->message)];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return tti_error_set(k->c->error, TUTTI_INVALID_ARGUMENT, "%s: %s", k->function, sentence);
}

/* Withholds the callback: it is not called after an error before the start. */
static tutti_status begun(struct tti_checker *k, const char *function)
{
    k->function = function;
    k->callback = k->c->options.callback;
    k->c->options.callback = NULL;
    return TUTTI_OK;
}

tutti_status tti_checker_begin(struct tti_checker *k, struct tti_call *c, tutti_group *group, tutti_operation operation,
                               const char *function, const tutti_call *options)
{
    k->c = c;
    k->task = NULL;
    k->work = NULL;
    tutti_status status = tti_call_begin(c, group, operation, false, options);
    return status == TUTTI_OK ? begun(k, function) : status;
}

tutti_status tti_checker_begin_async(struct tti_checker *k, tutti_group *group, tutti_operation operation,
                                     const char *function, const tutti_call *options, tutti_work **work)
{
    tutti_status status = TUTTI_OK;
    k->work = tti_start_begin(group, operation, function, options, &status);
    if (!k->work) {
        return status;
    }
    k->task = tti_start_task(k->work);
    k->c = &k->task->call;
    begun(k, function);
    if (!work) {
        return tti_start_refuse(k->work,
                                tti_reject(k, "work is NULL; it must point to where the handle of the operation goes"));
    }
    return TUTTI_OK;
}

/* Pinned host memory counts as the host's, managed memory as any device's. */
static bool device_fits(const struct tti_group *g, DLDevice device)
{
    if (g->device_ops->type == kDLCPU) {
        return device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
               device.device_type == kDLCUDAManaged || device.device_type == kDLROCMHost;
    }
    return (device.device_type == g->device_ops->type && device.device_id == g->device.device_id) ||
           (g->device_ops->managed_type != kDLCPU && device.device_type == g->device_ops->managed_type);
}

static tutti_status check_device(const struct tti_checker *k, const DLTensor *t, const char *name)
{
    const struct tti_group *g = k->c->group;
    char there[24];
    char here[24];
    if (k->c->on_host || device_fits(g, t->device)) {
        return TUTTI_OK;
    }
    return tti_error_set(k->c->error, TUTTI_DEVICE_MISMATCH,
                         "%s: %s lies on device %s, but this group works on %s; copy it there, or make a group on its "
                         "device (tutti_config.device)",
                         k->function, name, tti_device_text(t->device, there), tti_device_text(g->device, here));
}

/* Compares the tensor's device with the driver's. */
static tutti_status check_place(const struct tti_checker *k, const struct tti_view *v)
{
    const struct tti_group *g = k->c->group;
    DLDevice real;
    if (g->device_ops->type == kDLCPU || v->bytes == 0 || k->c->on_host) {
        return TUTTI_OK;
    }
    tutti_status status = g->device_ops->lookup(v->data, &real, k->c->error);
    if (status != TUTTI_OK || device_fits(g, real)) {
        return status;
    }
    char there[24];
    char here[24];
    return tti_error_set(
        k->c->error, TUTTI_DEVICE_MISMATCH, "%s: %s says that it lies on device %s, but its memory at %p is that of %s",
        k->function, v->name, tti_device_text(v->tensor->device, here), (void *)v->data, tti_device_text(real, there));
}

/* Elements and bytes from the shape. */
static tutti_status check_shape(const struct tti_checker *k, struct tti_view *v)
{
    bool empty = false;
    for (int32_t d = 0; d < v->ndim; d++) {
        if (v->shape[d] < 0) {
            return tti_reject(k, "%s has %" PRId64 " as length of dimension %d; lengths are 0 or more", v->name,
                              v->shape[d], (int)d);
        }
        empty = empty || v->shape[d] == 0;
    }
    int64_t count = empty ? 0 : 1;
    int64_t bytes = empty ? 0 : (int64_t)v->element;
    for (int32_t d = 0; d < v->ndim && !empty; d++) {
        if (__builtin_mul_overflow(bytes, v->shape[d], &bytes)) {
            return tti_reject(k, "%s is too large: its bytes (%zu per element) do not fit into 63 bits", v->name,
                              v->element);
        }
        count *= v->shape[d]; /* at most the bytes, which do not overflow */
    }
    v->count = (size_t)count;
    v->bytes = (size_t)bytes;
    return TUTTI_OK;
}

static tutti_status check_memory(const struct tti_checker *k, struct tti_view *v)
{
    v->data = NULL;
    v->begin = 0;
    v->end = 0;
    if (v->bytes == 0) {
        return TUTTI_OK;
    }
    if (!v->tensor->data) {
        return tti_reject(k, "%s has NULL as data but %zu elements; NULL is allowed only without elements", v->name,
                          v->count);
    }
    uintptr_t begin;
    if (__builtin_add_overflow((uintptr_t)v->tensor->data, v->tensor->byte_offset, &begin)) {
        return tti_reject(k, "%s has a byte_offset of %" PRIu64 ", which lies outside the address space", v->name,
                          v->tensor->byte_offset);
    }
    if (begin % v->element != 0) {
        return tti_reject(k,
                          "%s starts at address %p (data + byte_offset), which is not a multiple of the %zu bytes of "
                          "a %s",
                          v->name, (void *)begin, v->element, tutti_dtype_name(v->dtype));
    }
    v->begin = begin;
    bool fits =
        v->compact ? !__builtin_add_overflow(begin, v->bytes, &v->end) : tti_tensor_span(v->tensor, &v->begin, &v->end);
    if (!fits) {
        return tti_reject(k, "%s reaches beyond the address space", v->name);
    }
    v->data = tti_tensor_data(v->tensor);
    return TUTTI_OK;
}

/* A compact vector on the CPU, the most frequent tensor: the checks below in a few instructions. False: use the
 * complete checks. */
static inline bool view_vector(const struct tti_checker *k, const DLTensor *t, const char *name, struct tti_view *v)
{
    if (!t || t->ndim != 1 || t->device.device_type != kDLCPU || k->c->device.device_type != kDLCPU || !t->shape ||
        (t->strides && t->strides[0] != 1)) {
        return false;
    }
    const tutti_dtype dtype = tti_dtype_of(t->dtype);
    const size_t element = tti_dtype_size(dtype);
    const int64_t count = t->shape[0];
    const uintptr_t begin = (uintptr_t)t->data + t->byte_offset;
    if (element == 0 || count <= 0 || count > INT64_MAX / 8 || !t->data || begin < t->byte_offset ||
        begin % element != 0 || begin + (size_t)count * element < begin) {
        return false;
    }
    *v = (struct tti_view){.tensor = t,
                           .name = name,
                           .shape = t->shape,
                           .ndim = 1,
                           .dtype = dtype,
                           .element = element,
                           .count = (size_t)count,
                           .bytes = (size_t)count * element,
                           .data = (unsigned char *)begin,
                           .begin = begin,
                           .end = begin + (size_t)count * element,
                           .compact = true};
    return true;
}

/* A vector that differs from a checked one in its memory only. */
static inline bool view_alike(const DLTensor *t, const char *name, const struct tti_view *like, struct tti_view *v)
{
    if (!t || t->ndim != 1 || like->ndim != 1 || t->device.device_type != kDLCPU || !like->compact ||
        like->count == 0 || !t->shape || t->shape[0] != like->shape[0] || (t->strides && t->strides[0] != 1) ||
        memcmp(&t->dtype, &like->tensor->dtype, sizeof(t->dtype)) != 0 ||
        memcmp(&t->device, &like->tensor->device, sizeof(t->device)) != 0) {
        return false;
    }
    const uintptr_t begin = (uintptr_t)t->data + t->byte_offset;
    if (!t->data || begin < t->byte_offset || begin % like->element != 0 || begin + like->bytes < begin) {
        return false;
    }
    *v = *like;
    v->tensor = t;
    v->name = name;
    v->shape = t->shape;
    v->data = (unsigned char *)begin;
    v->begin = begin;
    v->end = begin + like->bytes;
    return true;
}

tutti_status tti_check_form(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                            struct tti_view *view)
{
    if (!tensor) {
        return tti_reject(k, "%s is NULL; it must be a tensor on this rank (rank %d)", name, (int)k->c->rank);
    }
    if (tensor->ndim < 0 || tensor->ndim > TUTTI_MAX_NDIM) {
        return tti_reject(k, "%s has %d dimensions; 0 to %d are allowed", name, (int)tensor->ndim, TUTTI_MAX_NDIM);
    }
    if (tensor->ndim > 0 && !tensor->shape) {
        return tti_reject(k, "%s has NULL as shape but %d dimensions", name, (int)tensor->ndim);
    }
    view->tensor = tensor;
    view->name = name;
    view->shape = tensor->shape;
    view->ndim = tensor->ndim;
    view->dtype = tutti_dtype_from_dlpack(tensor->dtype);
    view->element = tutti_dtype_size(view->dtype);
    if (view->element == 0) {
        return tti_reject(k,
                          "%s has an unknown dtype (DLPack code %u, %u bits, %u lanes); floats of 64, 32, 16 and 8 "
                          "bits (e4m3fn, e5m2), bf16, integers of 8 to 64 bits and bool with one lane are known",
                          name, (unsigned)tensor->dtype.code, (unsigned)tensor->dtype.bits,
                          (unsigned)tensor->dtype.lanes);
    }
    return check_shape(k, view);
}

static tutti_status check_closely(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                                  struct tti_view *view)
{
    tutti_status status = tensor ? check_device(k, tensor, name) : TUTTI_OK;
    if (status != TUTTI_OK || (status = tti_check_form(k, tensor, name, view)) != TUTTI_OK) {
        return status;
    }
    view->compact = view->count <= 1 || tutti_tensor_is_compact(tensor);
    status = check_memory(k, view);
    return status == TUTTI_OK ? check_place(k, view) : status;
}

/* Each element of an output needs memory of its own. */
static tutti_status check_written(const struct tti_checker *k, const struct tti_view *view)
{
    if (!tti_view_self_overlaps(view)) {
        return TUTTI_OK;
    }
    return tti_reject(
        k,
        "%s overlaps itself: its strides give different indices the same element, which only an input may do; "
        "pass an output whose elements have memory of their own",
        view->name);
}

tutti_status tti_check_tensor(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                              struct tti_view *view)
{
    return view_vector(k, tensor, name, view) ? TUTTI_OK : check_closely(k, tensor, name, view);
}

tutti_status tti_check_output(const struct tti_checker *k, const DLTensor *tensor, const char *name,
                              struct tti_view *view)
{
    tutti_status status = tti_check_tensor(k, tensor, name, view);
    return status == TUTTI_OK ? check_written(k, view) : status;
}

/* Whether both are the same elements in the same order: in place. */
static bool views_alias(const struct tti_view *a, const struct tti_view *b)
{
    if (a->data != b->data || a->count != b->count || a->ndim != b->ndim) {
        return false;
    }
    if (a->ndim == 1 && a->compact && b->compact) {
        return true;
    }
    for (int32_t d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && tti_view_stride(a, d) != tti_view_stride(b, d))) {
            return false;
        }
    }
    return true;
}

/* No common byte, or exact alias. */
static tutti_status check_in_place(const struct tti_checker *k, const struct tti_view *input,
                                   const struct tti_view *output)
{
    if (!tti_views_overlap(input, output) || views_alias(input, output)) {
        return TUTTI_OK;
    }
    return tti_reject(k, "%s overlaps %s in part (%p and %p); in place means exactly the same memory and strides",
                      output->name, input->name, (void *)output->data, (void *)input->data);
}

tutti_status tti_check_pair(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                            struct tti_view *in, struct tti_view *out, bool *in_place)
{
    tutti_status status = tti_check_tensor(k, input, "input", in);
    if (status != TUTTI_OK) {
        return status;
    }
    if (output == input) {
        *out = *in;
        out->name = "output";
        *in_place = true;
        return check_written(k, out);
    }
    if (!view_alike(output, "output", in, out) && ((status = tti_check_output(k, output, "output", out)) != TUTTI_OK ||
                                                   (status = tti_check_same_shape(k, in, out)) != TUTTI_OK)) {
        return status;
    }
    *in_place = in->data == out->data && views_alias(in, out);
    return *in_place ? TUTTI_OK : check_in_place(k, in, out);
}

tutti_status tti_check_same_dtype(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b)
{
    if (a->dtype == b->dtype) {
        return TUTTI_OK;
    }
    return tti_reject(k, "%s has dtype %s but %s has %s", b->name, tutti_dtype_name(b->dtype), a->name,
                      tutti_dtype_name(a->dtype));
}

tutti_status tti_check_same_shape(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b)
{
    tutti_status status = tti_check_same_dtype(k, a, b);
    if (status != TUTTI_OK) {
        return status;
    }
    if (a->ndim != b->ndim) {
        return tti_reject(k, "%s has %d dimensions but %s has %d; their shapes must be equal", b->name, (int)b->ndim,
                          a->name, (int)a->ndim);
    }
    for (int32_t d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d]) {
            return tti_reject(k,
                              "dimension %d of %s has length %" PRId64 " but that of %s has %" PRId64
                              "; their shapes must be equal",
                              (int)d, b->name, b->shape[d], a->name, a->shape[d]);
        }
    }
    return TUTTI_OK;
}

static bool is_integer(tutti_dtype dtype)
{
    return dtype >= TUTTI_I8 && dtype <= TUTTI_U64;
}

tutti_status tti_check_reduce_op(const struct tti_checker *k, tutti_reduce_op op, tutti_dtype dtype)
{
    if (op <= 0 || op >= TUTTI_REDUCE_OP_COUNT) {
        return tti_reject(k, "op is %d, which is no reduce op (tutti/collectives.h lists them)", (int)op);
    }
    if (!tutti_reduce_op_valid(op, dtype)) {
        return tti_reject(k, "op %s is not defined on dtype %s", tutti_reduce_op_name(op), tutti_dtype_name(dtype));
    }
    double scale = k->c->options.scale;
    /* up to 2^53 every integer is a double, so the factor is exact */
    if (op == TUTTI_PREMUL_SUM && is_integer(dtype) && !(fabs(scale) <= 0x1p53 && (double)(int64_t)scale == scale)) {
        return tti_reject(k, "call.scale is %g, but premul_sum on dtype %s takes whole numbers up to 2^53", scale,
                          tutti_dtype_name(dtype));
    }
    return TUTTI_OK;
}

tutti_status tti_check_limit(const char *function, int64_t limit_ms, tutti_error *error)
{
    if (limit_ms >= TUTTI_FOREVER) {
        return TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                         "%s: limit_ms is %lld; it must be -1 (no limit), 0 (no wait) or positive", function,
                         (long long)limit_ms);
}

tutti_status tti_check_root(const struct tti_checker *k, int32_t root)
{
    if (root >= 0 && root < k->c->group_size) {
        return TUTTI_OK;
    }
    return tti_reject(k, "root is %d; the ranks of this group are 0 to %d", (int)root, (int)k->c->group_size - 1);
}

bool tti_view_self_overlaps(const struct tti_view *view)
{
    return !view->compact && tti_tensor_self_overlaps(view->tensor);
}

tutti_status tti_check_dim(const struct tti_checker *k, struct tti_view *view, int32_t *dim)
{
    static const int64_t one = 1;
    if (view->ndim == 0) {
        view->ndim = 1;
        view->shape = &one;
    }
    if (*dim < -view->ndim || *dim >= view->ndim) {
        return tti_reject(k, "dim is %d, but %s has %d dimensions: dim is %d to %d, where -1 is the last one",
                          (int)*dim, view->name, (int)view->ndim, -(int)view->ndim, (int)view->ndim - 1);
    }
    *dim += *dim < 0 ? view->ndim : 0;
    return TUTTI_OK;
}

int64_t tti_view_stride(const struct tti_view *view, int32_t dim)
{
    if (view->tensor->strides && dim < view->tensor->ndim) {
        return view->tensor->strides[dim];
    }
    int64_t stride = 1;
    for (int32_t d = view->ndim - 1; d > dim; d--) {
        stride *= view->shape[d];
    }
    return stride;
}

bool tti_views_overlap(const struct tti_view *a, const struct tti_view *b)
{
    return a->begin < b->end && b->begin < a->end;
}
