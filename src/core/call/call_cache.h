/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recalled calls. Programs make the same collective again and again: the same operation on tensors of the same shape and
 * dtype, in memory that may be elsewhere each time. A thread remembers its last synchronous calls, with the descriptor that
 * came of each. When a call has the same signature, all that was checked and derived then holds again, and only what
 * depends on addresses is looked at: alignment, wrap-around, overlap. Whatever is not the same goes the long way, which
 * also finds the words for errors. Remembering costs nothing when it does not help: the memory is the thread's own.
 */
#ifndef TTI_CORE_CALL_CACHE_H
#define TTI_CORE_CALL_CACHE_H

#include "core/async/task.h"

/* A call as its caller wrote it. */
struct tti_signature {
    uint64_t what;         /* kind and reduce op */
    uint64_t where;        /* dim and root */
    const DLTensor *input; /* NULL, or ignored by the long way, if this rank has none */
    const DLTensor *output;
};

static inline struct tti_signature tti_signature_of(tutti_operation kind, tutti_reduce_op redop, int32_t dim,
                                                    int32_t root, const DLTensor *input, const DLTensor *output)
{
    return (struct tti_signature){.what = (uint64_t)kind << 32 | (uint32_t)redop,
                                  .where = (uint64_t)(uint32_t)dim << 32 | (uint32_t)root,
                                  .input = input,
                                  .output = output};
}

static inline tutti_operation tti_signature_kind(const struct tti_signature *s)
{
    return (tutti_operation)(s->what >> 32);
}

static inline tutti_reduce_op tti_signature_redop(const struct tti_signature *s)
{
    return (tutti_reduce_op)(uint32_t)s->what;
}

static inline int32_t tti_signature_dim(const struct tti_signature *s)
{
    return (int32_t)(s->where >> 32);
}

static inline int32_t tti_signature_root(const struct tti_signature *s)
{
    return (int32_t)(uint32_t)s->where;
}

/* Checks, describes and runs a call. */
typedef tutti_status tti_slow_path_function(tutti_group *group, const struct tti_signature *signature,
                                            const tutti_call *options);

/* Runs the whole call and returns its status: as this thread remembers it, or else by `anew`, the long way. */
tutti_status tti_call_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                                tti_slow_path_function *slow_path);

/* In the child of a fork: what this thread remembers is of groups that are not the child's. */
void tti_call_cache_invalidate(void);

/* Remembers a call that has passed its checks and ended well. */
void tti_call_cache_store(const struct tti_task *t);

#endif
