/* SPDX-License-Identifier: BSD-3-Clause */
/* Common to messages.c and probe.c. */
#ifndef TTI_API_MESSAGES_MESSAGES_H
#define TTI_API_MESSAGES_MESSAGES_H

#include "api/check.h"
#include "core/messages/transfer.h"

/* What a receive or a probe accepts: a rank or any source, a tag or any tag. `message` may be NULL. The names are those
 * of the arguments. */
tutti_status tti_message_check_source(const struct tti_checker *k, const char *peer_name, int32_t peer,
                                      const char *tag_name, int32_t tag, const tutti_message *message);

/* Fills all fields except `op`, and except the tensor, shape and strides, which are large and filled as far as they are
 * used. */
void tti_message_blank(const struct tti_checker *k, tutti_message *message, struct tti_transfer *t);

/* The asynchronous end of each function, after checks that have returned `checked`. Of a batch only the end is
 * asynchronous. */
tutti_status tti_message_start(const struct tti_checker *k, tutti_group *group, struct tti_transfer *first,
                               tutti_status checked, tutti_work **work);

#endif
