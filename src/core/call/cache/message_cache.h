/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives in the call cache: see call_cache.h. */
#ifndef TTI_CORE_MESSAGE_CACHE_H
#define TTI_CORE_MESSAGE_CACHE_H

#include <stdbool.h>

#include "core/call/cache/signature.h"

struct tti_cached_call;
struct tti_call;

/* Runs a message that is in the cache; *status is the outcome. False: nothing was done. `message`, which is checked, gets
 * what a receive has got, or is NULL. Not in a callback or a batch. */
bool tti_message_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                           tutti_message *message, tutti_status *status);

/* The same for a send and the receive beside it. */
bool tti_message_cache_run_two(tutti_group *group, const struct tti_signature *signatures, const tutti_call *options,
                               tutti_message *message, tutti_status *status);

/* The entry of a message that a batch collects, with its descriptor, checked and valid until the next call; NULL: it is
 * not in the cache, or has more or fewer dimensions than one. Fills the error of the options. */
const struct tti_cached_call *tti_message_cache_find(const tutti_group *group, const struct tti_signature *signature,
                                                     const tutti_call *options);

/* Stores a message that has passed its checks. */
void tti_message_cache_store(const struct tti_call *c, const struct tti_signature *signature, const tutti_op *op);

#endif
