/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What messages are on every engine: which receive takes one, whether it fits, and what errors say. Backends that match
 * messages themselves use it, too.
 */
#ifndef TTI_ENGINE_P2P_MESSAGE_RULES_H
#define TTI_ENGINE_P2P_MESSAGE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/backend.h>

/* Whether a receive or probe takes messages with this tag of this rank. */
static inline bool tti_message_taken_by(const tutti_op *op, int source, int32_t tag)
{
    return (op->root == TUTTI_ANY_SOURCE || op->root == source) && (op->p2p_tag == TUTTI_ANY_TAG || op->p2p_tag == tag);
}

/* Whether a message goes into the receive's tensor, which is made for it if the receive asks for that: OK, MISMATCH, or
 * why there is no tensor. */
static inline tutti_status tti_message_fits(tutti_op *op, const tutti_message *message, int32_t ndim,
                                            const int64_t *shape)
{
    if (op->allocate) {
        return op->allocate(op, message, ndim, shape);
    }
    return op->dtype == message->dtype && op->count >= (size_t)message->count ? TUTTI_OK : TUTTI_MISMATCH;
}

/* As in "recv from rank 3, any tag". */
void tti_message_describe(const tutti_op *op, char *text, size_t capacity);

/* Writes why the operation failed on this rank, and returns the status. `matched` is a receive's message; its size is 0
 * if it has none. */
tutti_status tti_message_failure(tutti_error *error, const tutti_op *op, tutti_status status,
                                 const tutti_message *matched, int rank);

/* TIMEOUT, which fails the group: the operation has waited since begun_ns, longer than its deadline of timeout_ms. */
tutti_status tti_message_late(tutti_error *error, const tutti_op *op, int rank, int64_t begun_ns, int64_t timeout_ms);

#endif
