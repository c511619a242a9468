/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The call cache: a small direct-mapped table of a thread's last synchronous collectives and messages and their
 * descriptors. Programs make the same call again and again, on tensors of the same shape and dtype, at other addresses
 * perhaps. A call with a cached signature skips the checks. Only the addresses are checked again: alignment,
 * wrap-around, overlap. Every other call takes the slow path, which also writes the error sentences. The table belongs
 * to the thread, so it needs no lock.
 *
 *   signature.h       what two calls are compared by
 *   entry.c           the table, and what its entries have in common
 *   call_cache.c      collectives
 *   message_cache.c   messages
 */
#ifndef TTI_CORE_CALL_CACHE_CALL_CACHE_H
#define TTI_CORE_CALL_CACHE_CALL_CACHE_H

#include "core/call/cache/signature.h"

struct tti_task;

/* Checks, describes and runs a call. */
typedef tutti_status tti_slow_path_function(tutti_group *group, const struct tti_signature *signature,
                                            const tutti_call *options);

/* Runs the whole call, from the cache or else by `slow_path`. Returns its status. */
tutti_status tti_call_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                                tti_slow_path_function *slow_path);

/* Stores a call that has passed its checks and has ended OK. */
void tti_call_cache_store(const struct tti_task *t);

#endif
