/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one place where the suite calls an operation: what to call (tti_check_operation), how it is brought to
 * its end (tti_check_pending), and what belongs to one regular collective (tti_check_job).
 *
 * The same operation is run synchronously and asynchronously, and an asynchronous one is waited for in every manner
 * that tutti/work.h offers. Ranks may complete one operation differently: the others do not notice. How many
 * are under way at once, and on which lanes, is the same on all of them.
 */
#ifndef TOOLS_CHECK_OPERATION_CALLS_H
#define TOOLS_CHECK_OPERATION_CALLS_H

#include "check/check.h"

enum tti_check_kind {
    TTI_CHECK_ALL_REDUCE,
    TTI_CHECK_REDUCE,
    TTI_CHECK_BROADCAST, /* of `output` */
    TTI_CHECK_ALL_GATHER,
    TTI_CHECK_GATHER,
    TTI_CHECK_SCATTER,
    TTI_CHECK_REDUCE_SCATTER,
    TTI_CHECK_ALL_TO_ALL,
    TTI_CHECK_BARRIER,
    TTI_CHECK_ALL_GATHER_V,
    TTI_CHECK_REDUCE_SCATTER_V,
    TTI_CHECK_ALL_TO_ALL_V,
    TTI_CHECK_SEND,
    TTI_CHECK_RECV,
    TTI_CHECK_RECV_ALLOC,
    TTI_CHECK_SENDRECV,
    TTI_CHECK_PROBE, /* waits for a message */
    TTI_CHECK_BATCH_END
};

/* The arguments of any operation; a kind reads those that its function has. */
struct tti_check_operation {
    enum tti_check_kind kind;
    tutti_reduce_op op;
    int32_t dim;
    int32_t root;
    const DLTensor *input;
    DLTensor *output;
    const int64_t *counts; /* all_to_all_v: of what is sent */
    const int64_t *displacements;
    const int64_t *recv_counts;
    const int64_t *recv_displacements;
    int32_t destination;
    int32_t source;
    int32_t tag; /* of a message */
    tutti_message *message;
    DLManagedTensorVersioned **managed;
    /* options of the call */
    uint32_t flags;
    uint32_t user_tag;
    double scale;
    tutti_wire wire;
    int64_t timeout_ms;
    tutti_cancel_token *token;
};

static inline bool tti_check_is_message(enum tti_check_kind kind)
{
    return kind >= TTI_CHECK_SEND;
}

/* Calls the function, or its asynchronous form if `work` is not NULL. */
tutti_status tti_check_call(tutti_group *group, const struct tti_check_operation *o, const tutti_call *options,
                            tutti_work **work);

bool tti_check_has_persistent_form(enum tti_check_kind kind);
/* It borrows the operation's tensors. */
tutti_persistent_op tti_check_persistent_op(const struct tti_check_operation *o);
/* The same as a synchronous call, by a persistent operation that is made for it: run, or with `starts` start and
 * wait. */
tutti_status tti_check_call_persistent(tutti_group *group, const struct tti_check_operation *o,
                                       const tutti_call *options, bool starts);

/* The same with shapes, strides, lists and options in memory that is spoilt behind the call: a library that keeps a
 * pointer into it is found out. */
tutti_status tti_check_call_temporary(const struct tti_check *c, const struct tti_check_operation *o,
                                      const tutti_call *options, tutti_work **work);

#endif
