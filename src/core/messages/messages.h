/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous messages of a group. They are posted on the caller's thread, all at once, and end in any order. Who waits
 * for one attends to it (claims it) and moves messages meanwhile; what nobody waits for is moved by a worker thread, which
 * is called for large messages, callbacks and descriptors, and for all others when they have not ended after a moment: a
 * full ring of small ones must not wait for a thread that is busy with something else.
 */
#ifndef TTI_CORE_MESSAGES_H
#define TTI_CORE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/async/timer.h"
#include "core/async/worker.h"

struct tti_group;
struct tti_work;

struct tti_messages {
    struct tti_group *group;
    pthread_mutex_t lock;
    struct tti_work *posted; /* posted and not ended, oldest first; under the lock */
    struct tti_work *newest;
    struct tti_work *scanned; /* by the worker in its present round: this one and those before it; NULL: none yet */
    struct tti_worker worker;
    struct tti_timer timer; /* deadlines of works that nobody waits for */
};

void tti_messages_init(struct tti_messages *m, struct tti_group *group);
void tti_messages_close(struct tti_messages *m);

/* Posts the transfers of the work, which are paired up (tti_transfers_match). An error: nothing was posted, the work is the caller's. OK: it may have ended already. */
tutti_status tti_messages_post(struct tti_messages *m, struct tti_work *w, tutti_error *error);

/* Waits for the end; false at until_ns. */
bool tti_messages_wait(struct tti_messages *m, struct tti_work *w, int64_t until_ns);

/* Moves what can be moved; true if the work has ended. */
bool tti_messages_try_finish(struct tti_messages *m, struct tti_work *w);

/* Makes the worker see to it that the work ends. */
void tti_messages_push(struct tti_messages *m, struct tti_work *w);

/* Withdraws the messages of the work; false if any has begun. Waits for nothing. */
bool tti_messages_cancel(struct tti_messages *m, struct tti_work *w);

#endif
