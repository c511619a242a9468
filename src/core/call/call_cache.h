/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call cache: a small direct-mapped table of a thread's last synchronous collectives and messages and their
 * descriptors. Programs make the same call again and again, on tensors of the same shape and dtype, at other addresses
 * perhaps. A call with a cached signature skips the checks. Only the addresses are checked again: alignment,
 * wrap-around, overlap. Every other call takes the slow path, which also writes the error sentences. The table belongs
 * to the thread, so it needs no lock.
 */
#ifndef TTI_CORE_CALL_CACHE_H
#define TTI_CORE_CALL_CACHE_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_call;
struct tti_task;

/* A call as its caller wrote it. */
struct tti_signature {
    uint64_t what;         /* kind and reduce op; or kind, peer and tag */
    uint64_t where;        /* dim and root; or 0 */
    const DLTensor *input; /* NULL, or ignored by the slow path, if this rank has none */
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

/* A message: `tensor` is the output of a receive, the input of a send. Its peer is in the upper half of `what`, where
 * the kind is less than 37, so that messages to several peers have entries of their own. */
static inline struct tti_signature tti_signature_of_message(tutti_operation kind, int32_t peer, int32_t tag,
                                                            const DLTensor *tensor)
{
    const uint32_t kind_and_peer = (uint32_t)kind + 37 * (uint32_t)peer;
    return (struct tti_signature){.what = (uint64_t)kind_and_peer << 32 | (uint32_t)tag,
                                  .input = kind == TUTTI_OP_SEND ? tensor : NULL,
                                  .output = kind == TUTTI_OP_SEND ? NULL : tensor};
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

/* Runs the whole call, from the cache or else by `slow_path`. Returns its status. */
tutti_status tti_call_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                                tti_slow_path_function *slow_path);

/* Stores a call that has passed its checks and has ended OK. */
void tti_call_cache_store(const struct tti_task *t);

/* The same for one message, or for a send and the receive after it: runs them if all are in the cache. False: nothing
 * was done. `message`, which is checked, gets what the receive has got, or is NULL. */
bool tti_call_cache_run_messages(tutti_group *group, const struct tti_signature *signatures, int count,
                                 const tutti_call *options, tutti_message *message, tutti_status *status);

/* The checked descriptor of a message that a batch collects, valid until the next call; NULL: it is not in the cache, or
 * has more or fewer dimensions than one. Fills the error of the options. */
const tutti_op *tti_call_cache_find_message(const tutti_group *group, const struct tti_signature *signature,
                                            const tutti_call *options);

/* Stores a message that has passed its checks. */
void tti_call_cache_store_message(const struct tti_call *c, const struct tti_signature *signature, const tutti_op *op);

#endif
