/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with numbers: their data are a function of (sender, number), so one that came in another one's place is
 * seen. */
#ifndef TOOLS_CHECK_OPERATION_MESSAGES_H
#define TOOLS_CHECK_OPERATION_MESSAGES_H

#include "check/data/tensors.h"
#include "check/operation/completion.h"

/* Message `number` of this rank, sealed. */
void tti_check_outgoing(struct tti_check *c, struct tti_check_tensor *x, tutti_dtype dtype, int ndim,
                        const int64_t *shape, enum tti_check_layout layout, int number);
/* The first `count` elements of x are those of message `number` of `source`. */
void tti_check_incoming(struct tti_check *c, struct tti_check_tensor *x, size_t count, int source, int number);
/* Where the data of message `number` begin in the sender's stream. */
static inline uint64_t tti_check_first_of(int number)
{
    return (uint64_t)number << 32;
}

/* The same for f32 in one dimension: a tensor to receive into, and message `number` of this rank. */
void tti_check_vector(struct tti_check *c, struct tti_check_tensor *x, int64_t count);
void tti_check_vector_message(struct tti_check *c, struct tti_check_tensor *x, int64_t count, int number);

/* Starts a send to the next rank, or a receive. */
void tti_check_start_send(struct tti_check *c, struct tti_check_pending *f, const struct tti_check_tensor *x, int tag,
                          enum tti_check_completion completion);
void tti_check_start_recv(struct tti_check *c, struct tti_check_pending *f, struct tti_check_tensor *x, int source,
                          int tag, enum tti_check_completion completion);
/* Receives such a message, and compares. */
void tti_check_receive(struct tti_check *c, int64_t count, int source, int tag, int number);

/* What the library says of a message. */
void tti_check_expect_message(struct tti_check *c, const tutti_message *m, int source, int tag, tutti_dtype dtype,
                              size_t count);

#endif
