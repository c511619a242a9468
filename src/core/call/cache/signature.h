/* SPDX-License-Identifier: BSD-3-Clause */
/* A synchronous call as its caller wrote it, in few words, so that comparing two of them is cheap. */
#ifndef TTI_CORE_CALL_CACHE_SIGNATURE_H
#define TTI_CORE_CALL_CACHE_SIGNATURE_H

#include <stdint.h>
#include <tutti/backend.h>

#define TTI_NO_COLLECTIVE UINT32_MAX /* root -1 */

struct tti_signature {
    uint64_t what;         /* kind and reduce op; or kind, peer and tag */
    uint64_t where;        /* dim and root; or TTI_NO_COLLECTIVE */
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
 * the kind is less than 151, so that messages to several peers have entries of their own. A number that is no peer can
 * look like a kind there. */
static inline struct tti_signature tti_signature_of_message(tutti_operation kind, int32_t peer, int32_t tag,
                                                            const DLTensor *tensor)
{
    const uint32_t kind_and_peer = (uint32_t)kind + 151 * (uint32_t)peer;
    return (struct tti_signature){.what = (uint64_t)kind_and_peer << 32 | (uint32_t)tag,
                                  .where = TTI_NO_COLLECTIVE,
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

#endif
