/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with numbers: their data are a function of (sender, number), so one that came in another one's place is seen. */
#ifndef TTI_CHECK_OPERATION_MESSAGES_H
#define TTI_CHECK_OPERATION_MESSAGES_H

#include "check/data/tensors.h"

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

/* What the library says of a message. */
void tti_check_expect_message(struct tti_check *c, const tutti_message *m, int source, int tag, tutti_dtype dtype,
                              size_t count);

#endif
