/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation, by its synchronous function or by its asynchronous one. */
#include "check/operation/calls.h"

#include <stdlib.h>
#include <string.h>

#include "check/data/data.h"

/* The function, or its asynchronous form, which takes the work as its last argument. */
#define CALL(function, ...) (work ? function##_async(__VA_ARGS__, work) : function(__VA_ARGS__))

static tutti_status collective(tutti_group *g, const struct tti_check_operation *o, const tutti_call *options,
                               tutti_work **work)
{
    switch (o->kind) {
    case TTI_CHECK_ALL_REDUCE:
        return CALL(tutti_all_reduce, g, o->input, o->output, o->op, options);
    case TTI_CHECK_REDUCE:
        return CALL(tutti_reduce, g, o->input, o->output, o->op, o->root, options);
    case TTI_CHECK_BROADCAST:
        return CALL(tutti_broadcast, g, o->output, o->root, options);
    case TTI_CHECK_ALL_GATHER:
        return CALL(tutti_all_gather, g, o->input, o->output, o->dim, options);
    case TTI_CHECK_GATHER:
        return CALL(tutti_gather, g, o->input, o->output, o->dim, o->root, options);
    case TTI_CHECK_SCATTER:
        return CALL(tutti_scatter, g, o->input, o->output, o->dim, o->root, options);
    case TTI_CHECK_REDUCE_SCATTER:
        return CALL(tutti_reduce_scatter, g, o->input, o->output, o->op, o->dim, options);
    case TTI_CHECK_ALL_TO_ALL:
        return CALL(tutti_all_to_all, g, o->input, o->output, o->dim, options);
    case TTI_CHECK_ALL_GATHER_V:
        return CALL(tutti_all_gather_v, g, o->input, o->output, o->dim, o->counts, o->displacements, options);
    case TTI_CHECK_REDUCE_SCATTER_V:
        return CALL(tutti_reduce_scatter_v, g, o->input, o->output, o->op, o->dim, o->counts, options);
    case TTI_CHECK_ALL_TO_ALL_V:
        return CALL(tutti_all_to_all_v, g, o->input, o->output, o->dim, o->counts, o->displacements, o->recv_counts,
                    o->recv_displacements, options);
    default:
        return CALL(tutti_barrier, g, options);
    }
}

static tutti_status message(tutti_group *g, const struct tti_check_operation *o, const tutti_call *options,
                            tutti_work **work)
{
    switch (o->kind) {
    case TTI_CHECK_SEND:
        return CALL(tutti_send, g, o->input, o->destination, o->tag, options);
    case TTI_CHECK_RECV:
        return CALL(tutti_recv, g, o->output, o->source, o->tag, options, o->message);
    case TTI_CHECK_RECV_ALLOC:
        return CALL(tutti_recv_alloc, g, o->source, o->tag, options, o->managed, o->message);
    case TTI_CHECK_SENDRECV:
        return CALL(tutti_sendrecv, g, o->input, o->destination, o->tag, o->output, o->source, o->tag, options,
                    o->message);
    case TTI_CHECK_PROBE:
        return work ? tutti_probe_async(g, o->source, o->tag, options, o->message, work)
                    : tutti_probe_wait(g, o->source, o->tag, options, o->message);
    default:
        return CALL(tutti_batch_end, g, options);
    }
}

tutti_status tti_check_call(tutti_group *group, const struct tti_check_operation *o, const tutti_call *options,
                            tutti_work **work)
{
    return tti_check_is_message(o->kind) ? message(group, o, options, work) : collective(group, o, options, work);
}

/* ---- persistent ---- */

bool tti_check_has_persistent_form(enum tti_check_kind kind)
{
    return kind <= TTI_CHECK_BARRIER;
}

tutti_persistent_op tti_check_persistent_op(const struct tti_check_operation *o)
{
    static const tutti_operation kinds[] = {[TTI_CHECK_ALL_REDUCE] = TUTTI_OP_ALL_REDUCE,
                                            [TTI_CHECK_REDUCE] = TUTTI_OP_REDUCE,
                                            [TTI_CHECK_BROADCAST] = TUTTI_OP_BROADCAST,
                                            [TTI_CHECK_ALL_GATHER] = TUTTI_OP_ALL_GATHER,
                                            [TTI_CHECK_GATHER] = TUTTI_OP_GATHER,
                                            [TTI_CHECK_SCATTER] = TUTTI_OP_SCATTER,
                                            [TTI_CHECK_REDUCE_SCATTER] = TUTTI_OP_REDUCE_SCATTER,
                                            [TTI_CHECK_ALL_TO_ALL] = TUTTI_OP_ALL_TO_ALL,
                                            [TTI_CHECK_BARRIER] = TUTTI_OP_BARRIER};
    return (tutti_persistent_op){
        .kind = kinds[o->kind], .op = o->op, .dim = o->dim, .root = o->root, .input = o->input, .output = o->output};
}

tutti_status tti_check_call_persistent(tutti_group *group, const struct tti_check_operation *o,
                                       const tutti_call *options, bool starts)
{
    const tutti_persistent_op operation = tti_check_persistent_op(o);
    tutti_persistent *p = NULL;
    tutti_status status = tutti_persistent_init(group, &operation, 1, options, &p);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!starts) {
        status = tutti_persistent_run(p, options->error);
    } else if ((status = tutti_persistent_start(p, options->error)) == TUTTI_OK) {
        status = tutti_persistent_wait(p, TUTTI_FOREVER, options->error);
    }
    const tutti_status released = tutti_persistent_release(p, NULL);
    return status == TUTTI_OK ? released : status;
}

/* ---- arguments that do not outlive the call ---- */

struct temporary_tensor {
    DLTensor t;
    int64_t shape[3];
    int64_t strides[3];
};

static DLTensor *copy_tensor_arguments(struct temporary_tensor *temporary, const DLTensor *t)
{
    if (!t) {
        return NULL;
    }
    temporary->t = *t;
    for (int d = 0; d < t->ndim; d++) {
        temporary->shape[d] = t->shape[d];
        temporary->strides[d] = t->strides ? t->strides[d] : 0;
    }
    temporary->t.shape = t->shape ? temporary->shape : NULL;
    temporary->t.strides = t->strides ? temporary->strides : NULL;
    return &temporary->t;
}

static const int64_t *copy_list(int64_t *room, const int64_t *list, size_t n)
{
    return list ? memcpy(room, list, n * sizeof(*list)) : NULL;
}

/* On the heap, where a sanitizer finds later accesses. */
struct temporary {
    struct temporary_tensor input;
    struct temporary_tensor output;
    tutti_call options;
    int64_t lists[];
};

tutti_status tti_check_call_temporary(const struct tti_check *c, const struct tti_check_operation *o,
                                      const tutti_call *options, tutti_work **work)
{
    const size_t n = (size_t)c->size;
    const size_t bytes = sizeof(struct temporary) + 4 * n * sizeof(int64_t);
    struct temporary *temporary = tti_check_memory(bytes);
    struct tti_check_operation with = *o;
    temporary->options = *options;
    with.input = copy_tensor_arguments(&temporary->input, o->input);
    with.output = copy_tensor_arguments(&temporary->output, o->output);
    with.counts = copy_list(temporary->lists, o->counts, n);
    with.displacements = copy_list(temporary->lists + n, o->displacements, n);
    with.recv_counts = copy_list(temporary->lists + 2 * n, o->recv_counts, n);
    with.recv_displacements = copy_list(temporary->lists + 3 * n, o->recv_displacements, n);
    const tutti_status status = tti_check_call(c->group, &with, &temporary->options, work);
    explicit_bzero(temporary, bytes);
    free(temporary);
    return status;
}
