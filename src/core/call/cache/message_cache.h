/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives in the call cache: see call_cache.h. */
#ifndef TTI_CORE_CALL_CACHE_MESSAGE_CACHE_H
#define TTI_CORE_CALL_CACHE_MESSAGE_CACHE_H

#include <stdbool.h>

#include "core/call/cache/signature.h"

struct tti_call;

/* Runs a message that is in the cache; *status is the outcome. False: nothing was done. `message`, which is checked,
 * gets what a receive has got, or is NULL. Not in a callback or a batch. */
bool tti_message_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                           tutti_message *message, tutti_status *status);

/* The same for a send and the receive beside it. */
bool tti_message_cache_run_two(tutti_group *group, const struct tti_signature *signatures, const tutti_call *options,
                               tutti_message *message, tutti_status *status);

/* The checked descriptor of a message that a batch collects, valid until the next call; NULL: it is not in the cache,
 * or has more or fewer dimensions than one. *fill is a number from 1 on: where it is the same, the descriptors differ
 * in their addresses and outcomes only. Fills the error of the options. */
const tutti_op *tti_message_cache_find(const tutti_group *group, const struct tti_signature *signature,
                                       const tutti_call *options, uint64_t *fill);

/* Stores a message that has passed its checks. */
void tti_message_cache_store(const struct tti_call *c, const struct tti_signature *signature, const tutti_op *op);

#endif
