/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives with equal parts: check the arguments, fill the operation, and run or start it. A compact tensor
 * costs no allocation. Arguments of the root are checked on the root only.
 */
#include <string.h>
#include <tutti/work.h>

#include "api/async/enqueue.h"
#include "api/collectives/collectives.h"
#include "api/collectives/frame.h"
#include "api/collectives/parts.h"
#include "core/call/cache/call_cache.h"
#include "core/call/wire.h"
#include "engine/descriptor.h"

/* The code of a tensor's shape that ranks compare. */
static uint32_t shape_of(const struct tti_view *view)
{
    return tti_shape_code(view->ndim, view->shape, -1);
}

static tutti_status check_reduction(const struct tti_checker *k, const DLTensor *input, const DLTensor *output,
                                    tutti_reduce_op op, struct tti_view *in, struct tti_view *out, bool *in_place)
{
    tutti_status status = tti_check_pair(k, input, output, in, out, in_place);
    return status == TUTTI_OK ? tti_check_reduce_op(k, op, in->dtype) : status;
}

/* A reduction of tensors with the same shape; out NULL: this rank gets no result. */
static void describe_reduction(const struct tti_checker *k, const struct tti_view *in, const struct tti_view *out,
                               bool in_place, tutti_reduce_op redop, int32_t root)
{
    tutti_op *op = &k->task->op;
    *op = (tutti_op){.dtype = in->dtype, .redop = redop, .root = root, .count = in->count, .shape_code = shape_of(in)};
    op->src = tti_collective_memory(k, in, in_place ? TTI_PACK | TTI_UNPACK : TTI_PACK);
    if (in_place) {
        op->dst = (void *)(uintptr_t)op->src;
    } else if (out) {
        op->dst = tti_collective_memory(k, out, TTI_UNPACK);
    }
    k->task->result = out ? out->tensor : NULL;
}

static tutti_status all_reduce(const struct tti_checker *k, const struct tti_signature *s)
{
    const tutti_reduce_op redop = tti_signature_redop(s);
    struct tti_view in;
    struct tti_view out;
    bool in_place;
    tutti_status status = check_reduction(k, s->input, s->output, redop, &in, &out, &in_place);
    status = status == TUTTI_OK
                 ? tti_wire_check_reduction(k->c->options.wire, k->c->group, in.dtype, redop, k->c->error)
                 : status;
    if (status == TUTTI_OK) {
        describe_reduction(k, &in, &out, in_place, redop, 0);
    }
    return status;
}

static tutti_status reduce(const struct tti_checker *k, const struct tti_signature *s)
{
    const tutti_reduce_op redop = tti_signature_redop(s);
    const int32_t root = tti_signature_root(s);
    struct tti_view in;
    struct tti_view out;
    bool on_root = k->c->rank == root;
    bool in_place = false;
    tutti_status status = tti_check_root(k, root);
    if (status == TUTTI_OK && on_root) {
        status = check_reduction(k, s->input, s->output, redop, &in, &out, &in_place);
    } else if (status == TUTTI_OK && (status = tti_check_tensor(k, s->input, "input", &in)) == TUTTI_OK) {
        status = tti_check_reduce_op(k, redop, in.dtype);
    }
    if (status == TUTTI_OK) {
        describe_reduction(k, &in, on_root ? &out : NULL, in_place, redop, root);
    }
    return status;
}

static tutti_status broadcast(const struct tti_checker *k, const struct tti_signature *s)
{
    const DLTensor *tensor = s->output;
    const int32_t root = tti_signature_root(s);
    struct tti_view view;
    tutti_status status;
    if ((status = tti_check_root(k, root)) != TUTTI_OK) {
        return status;
    }
    status = k->c->rank == root ? tti_check_tensor(k, tensor, "tensor", &view)
                                : tti_check_output(k, tensor, "tensor", &view);
    if (status != TUTTI_OK) {
        return status;
    }
    k->task->op = (tutti_op){.dtype = view.dtype, .root = root, .count = view.count, .shape_code = shape_of(&view)};
    k->task->op.dst = tti_collective_memory(k, &view, k->c->rank == root ? TTI_PACK : TTI_UNPACK);
    k->task->result = tensor;
    return TUTTI_OK;
}

/* An operation between a part (in or out) and a joined tensor (in or out); a side that this rank has not is NULL. */
static void describe_between(const struct tti_checker *k, const struct tti_view *in, const struct tti_view *out,
                             const tutti_op *op)
{
    k->task->op = *op;
    k->task->op.src = in ? tti_collective_memory(k, in, TTI_PACK) : NULL;
    k->task->op.dst = out ? tti_collective_memory(k, out, TTI_UNPACK) : NULL;
    k->task->result = out ? out->tensor : NULL;
}

/* Both gathers; on other ranks than the root (`has_output` false) only the input counts. */
static tutti_status gather_to(const struct tti_checker *k, const struct tti_signature *s, bool has_output)
{
    int32_t dim = tti_signature_dim(s);
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.root = tti_signature_root(s)};
    tutti_status status;
    if ((status = tti_check_tensor(k, s->input, "input", &in)) != TUTTI_OK ||
        (status = tti_check_dim(k, &in, &dim)) != TUTTI_OK || (status = tti_check_all_parts(k, &in)) != TUTTI_OK) {
        return status;
    }
    if (has_output && ((status = tti_check_output(k, s->output, "output", &out)) != TUTTI_OK ||
                       (status = tti_check_dim(k, &out, &dim)) != TUTTI_OK ||
                       (status = tti_parts_equal(k, &in, &out, dim, &op.recv_parts)) != TUTTI_OK ||
                       (status = tti_check_own_part(k, &in, &out, &op.recv_parts, dim)) != TUTTI_OK)) {
        return status;
    }
    op.dtype = in.dtype;
    op.dim = dim;
    op.count = in.count;
    op.shape_code = shape_of(&in);
    describe_between(k, &in, has_output ? &out : NULL, &op);
    return TUTTI_OK;
}

static tutti_status all_gather(const struct tti_checker *k, const struct tti_signature *s)
{
    return gather_to(k, s, true);
}

static tutti_status gather(const struct tti_checker *k, const struct tti_signature *s)
{
    const int32_t root = tti_signature_root(s);
    tutti_status status = tti_check_root(k, root);
    return status == TUTTI_OK ? gather_to(k, s, k->c->rank == root) : status;
}

static tutti_status scatter(const struct tti_checker *k, const struct tti_signature *s)
{
    int32_t dim = tti_signature_dim(s);
    const int32_t root = tti_signature_root(s);
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.root = root};
    bool on_root = k->c->rank == root;
    tutti_status status;
    if ((status = tti_check_root(k, root)) != TUTTI_OK ||
        (status = tti_check_output(k, s->output, "output", &out)) != TUTTI_OK ||
        (status = tti_check_dim(k, &out, &dim)) != TUTTI_OK || (status = tti_check_all_parts(k, &out)) != TUTTI_OK) {
        return status;
    }
    if (on_root && ((status = tti_check_tensor(k, s->input, "input", &in)) != TUTTI_OK ||
                    (status = tti_check_dim(k, &in, &dim)) != TUTTI_OK ||
                    (status = tti_parts_equal(k, &out, &in, dim, &op.send_parts)) != TUTTI_OK ||
                    (status = tti_check_own_part(k, &out, &in, &op.send_parts, dim)) != TUTTI_OK)) {
        return status;
    }
    op.dtype = out.dtype;
    op.dim = dim;
    op.count = out.count;
    op.shape_code = shape_of(&out);
    describe_between(k, on_root ? &in : NULL, &out, &op);
    return TUTTI_OK;
}

static tutti_status reduce_scatter(const struct tti_checker *k, const struct tti_signature *s)
{
    const tutti_reduce_op redop = tti_signature_redop(s);
    int32_t dim = tti_signature_dim(s);
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {.redop = redop};
    tutti_status status;
    if ((status = tti_check_tensor(k, s->input, "input", &in)) != TUTTI_OK ||
        (status = tti_check_output(k, s->output, "output", &out)) != TUTTI_OK ||
        (status = tti_check_dim(k, &in, &dim)) != TUTTI_OK || (status = tti_check_dim(k, &out, &dim)) != TUTTI_OK ||
        (status = tti_parts_equal(k, &out, &in, dim, &op.send_parts)) != TUTTI_OK ||
        (status = tti_check_reduce_op(k, redop, in.dtype)) != TUTTI_OK ||
        (status = tti_check_own_part(k, &out, &in, &op.send_parts, dim)) != TUTTI_OK) {
        return status;
    }
    op.dtype = in.dtype;
    op.dim = dim;
    op.count = out.count;
    op.shape_code = shape_of(&out);
    describe_between(k, &in, &out, &op);
    return TUTTI_OK;
}

static tutti_status all_to_all(const struct tti_checker *k, const struct tti_signature *s)
{
    int32_t dim = tti_signature_dim(s);
    struct tti_view in;
    struct tti_view out;
    tutti_op op = {0};
    tutti_status status;
    if ((status = tti_check_tensor(k, s->input, "input", &in)) != TUTTI_OK ||
        (status = tti_check_output(k, s->output, "output", &out)) != TUTTI_OK ||
        (status = tti_check_dim(k, &in, &dim)) != TUTTI_OK || (status = tti_check_dim(k, &out, &dim)) != TUTTI_OK ||
        (status = tti_check_same_shape(k, &in, &out)) != TUTTI_OK ||
        (status = tti_parts_cut(k, &in, dim, &op.send_parts)) != TUTTI_OK) {
        return status;
    }
    if (tti_views_overlap(&in, &out)) {
        return tti_reject(k, "output overlaps input; all_to_all has no in-place form");
    }
    op.recv_parts = op.send_parts;
    op.dtype = in.dtype;
    op.dim = dim;
    op.count = in.count;
    op.shape_code = shape_of(&in);
    describe_between(k, &in, &out, &op);
    return TUTTI_OK;
}

static tutti_status barrier(const struct tti_checker *k, const struct tti_signature *s)
{
    (void)s;
    k->task->op = (tutti_op){.root = 0};
    return TUTTI_OK;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

struct collective {
    const char *name;
    const char *async_name;
    tutti_status (*describe)(const struct tti_checker *k, const struct tti_signature *s); /* checks, and fills the op */
};

static const struct collective collectives[] = {
    [TUTTI_OP_ALL_REDUCE] = {"all_reduce", "all_reduce_async", all_reduce},
    [TUTTI_OP_REDUCE] = {"reduce", "reduce_async", reduce},
    [TUTTI_OP_BROADCAST] = {"broadcast", "broadcast_async", broadcast},
    [TUTTI_OP_ALL_GATHER] = {"all_gather", "all_gather_async", all_gather},
    [TUTTI_OP_GATHER] = {"gather", "gather_async", gather},
    [TUTTI_OP_SCATTER] = {"scatter", "scatter_async", scatter},
    [TUTTI_OP_REDUCE_SCATTER] = {"reduce_scatter", "reduce_scatter_async", reduce_scatter},
    [TUTTI_OP_ALL_TO_ALL] = {"all_to_all", "all_to_all_async", all_to_all},
    [TUTTI_OP_BARRIER] = {"barrier", "barrier_async", barrier},
};

const char *tti_collective_name(tutti_operation kind)
{
    const size_t count = sizeof(collectives) / sizeof(collectives[0]);
    return kind >= 0 && (size_t)kind < count ? collectives[kind].name : NULL;
}

tutti_status tti_collective_describe(const struct tti_checker *k, const struct tti_signature *s)
{
    return collectives[tti_signature_kind(s)].describe(k, s);
}

static tutti_status start_as(const char *name, tutti_group *group, const struct tti_signature *s,
                             const tutti_call *call, tutti_work **work)
{
    struct tti_checker k;
    tutti_status status = tti_collective_begin_async(&k, group, tti_signature_kind(s), name, call, work);
    return status == TUTTI_OK ? tti_collective_start(&k, collectives[tti_signature_kind(s)].describe(&k, s), work)
                              : status;
}

static tutti_status run_slow_path(tutti_group *group, const struct tti_signature *s, const tutti_call *call)
{
    const struct collective *c = &collectives[tti_signature_kind(s)];
    struct tti_task task;
    struct tti_checker k;
    if (tti_enqueues(call)) {
        tutti_work *work = NULL;
        return tti_enqueued(start_as(c->name, group, s, call, &work), &work, call);
    }
    tutti_status status = tti_collective_begin(&k, &task, group, tti_signature_kind(s), c->name, call);
    task.signature = s;
    return status == TUTTI_OK ? tti_collective_run(&k, c->describe(&k, s)) : status;
}

tutti_status tti_all_gather_on_host(tutti_group *group, const DLTensor *input, DLTensor *output, int64_t begun_ns,
                                    const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_GATHER, 0, 0, 0, input, output);
    struct tti_task task;
    struct tti_checker k;
    tutti_status status = tti_collective_begin(&k, &task, group, TUTTI_OP_ALL_GATHER, "all_gather", call);
    if (status != TUTTI_OK) {
        return status;
    }
    k.c->on_host = true;
    status = all_gather(&k, &s);
    task.op.begun_ns = begun_ns;
    return tti_collective_run(&k, status);
}

static inline tutti_status run(tutti_group *group, const struct tti_signature *s, const tutti_call *call)
{
    return tti_call_cache_run(group, s, call, run_slow_path);
}

static tutti_status start(tutti_group *group, const struct tti_signature *s, const tutti_call *call, tutti_work **work)
{
    return start_as(collectives[tti_signature_kind(s)].async_name, group, s, call, work);
}

/* From here on each function and its asynchronous form: prototypes, which a macro would hide from the reader. */

tutti_status tutti_all_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                              const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_REDUCE, op, 0, 0, input, output);
    return run(group, &s, call);
}

tutti_status tutti_all_reduce_async(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                    const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_REDUCE, op, 0, 0, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_reduce(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op, int32_t root,
                          const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_REDUCE, op, 0, root, input, output);
    return run(group, &s, call);
}

tutti_status tutti_reduce_async(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                int32_t root, const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_REDUCE, op, 0, root, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_broadcast(tutti_group *group, DLTensor *tensor, int32_t root, const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_BROADCAST, 0, 0, root, NULL, tensor);
    return run(group, &s, call);
}

tutti_status tutti_broadcast_async(tutti_group *group, DLTensor *tensor, int32_t root, const tutti_call *call,
                                   tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_BROADCAST, 0, 0, root, NULL, tensor);
    return start(group, &s, call, work);
}

tutti_status tutti_all_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                              const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_GATHER, 0, dim, 0, input, output);
    return run(group, &s, call);
}

tutti_status tutti_all_gather_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                    const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_GATHER, 0, dim, 0, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_gather(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim, int32_t root,
                          const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_GATHER, 0, dim, root, input, output);
    return run(group, &s, call);
}

tutti_status tutti_gather_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim, int32_t root,
                                const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_GATHER, 0, dim, root, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_scatter(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim, int32_t root,
                           const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_SCATTER, 0, dim, root, input, output);
    return run(group, &s, call);
}

tutti_status tutti_scatter_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim, int32_t root,
                                 const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_SCATTER, 0, dim, root, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_reduce_scatter(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                  int32_t dim, const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_REDUCE_SCATTER, op, dim, 0, input, output);
    return run(group, &s, call);
}

tutti_status tutti_reduce_scatter_async(tutti_group *group, const DLTensor *input, DLTensor *output, tutti_reduce_op op,
                                        int32_t dim, const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_REDUCE_SCATTER, op, dim, 0, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_all_to_all(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                              const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_TO_ALL, 0, dim, 0, input, output);
    return run(group, &s, call);
}

tutti_status tutti_all_to_all_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                    const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_ALL_TO_ALL, 0, dim, 0, input, output);
    return start(group, &s, call, work);
}

tutti_status tutti_barrier(tutti_group *group, const tutti_call *call)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_BARRIER, 0, 0, 0, NULL, NULL);
    return run(group, &s, call);
}

tutti_status tutti_barrier_async(tutti_group *group, const tutti_call *call, tutti_work **work)
{
    const struct tti_signature s = tti_signature_of(TUTTI_OP_BARRIER, 0, 0, 0, NULL, NULL);
    return start(group, &s, call, work);
}
