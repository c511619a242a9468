/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous messages of a group. They are posted on the caller's thread, all at once, and end in any order. Who waits
 * for one attends to it (claims it) and moves messages meanwhile; what nobody waits for is moved by a worker thread, which
 * is called for large messages, callbacks and descriptors, and for all others when they have not ended after a moment: a
 * full ring of small ones must not wait for a thread that is busy with something else.
 */
#ifndef TTI_CORE_MESSAGES_H
#define TTI_CORE_MESSAGES_H

#include "core/async/work_state.h"
#include "core/messages/messages_state.h"

void tti_messages_init(struct tti_messages *m, struct tti_group *group);
void tti_messages_close(struct tti_messages *m);

/* Posts the transfers of the work, which are paired (tti_transfers_match). On failure no message is posted and the work is
 * the caller's. After OK the work may have ended already. */
tutti_status tti_messages_post(struct tti_messages *m, struct tti_work *w, tutti_error *error);

/* The runner of works that are messages. */
extern const struct tti_work_runner tti_messages_runner;

#endif
