/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous messages of a group. The caller's thread posts them all at once; they end in any order. A thread that
 * waits for a work claims it and drives the engine meanwhile. A worker thread drives it for works without a waiter: at
 * once for large messages, callbacks and descriptors, and for small messages that have not ended after a moment. So a
 * full ring of small messages progresses while their threads are busy.
 */
#ifndef TTI_CORE_MESSAGES_MESSAGES_H
#define TTI_CORE_MESSAGES_MESSAGES_H

#include "core/async/work/state.h"
#include "core/messages/messages_state.h"

void tti_messages_init(struct tti_messages *m, struct tti_group *group);
void tti_messages_close(struct tti_messages *m);

/* Posts the transfers of the work, which are paired (tti_transfers_match). On failure no message is posted and the work
 * is the caller's. After OK the work may have ended already. */
tutti_status tti_messages_post(struct tti_messages *m, struct tti_work *w, tutti_error *error);

/* The runner of works that are messages. */
extern const struct tti_work_runner tti_messages_runner;

#endif
