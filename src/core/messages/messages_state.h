/* SPDX-License-Identifier: BSD-3-Clause */
/* The asynchronous messages of a group: the list of posted works, and the worker that runs them. See messages.c. */
#ifndef TTI_CORE_MESSAGES_MESSAGES_STATE_H
#define TTI_CORE_MESSAGES_MESSAGES_STATE_H

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
    struct tti_work *checked; /* the same by the timer */
    struct tti_worker worker;
    struct tti_timer timer; /* deadlines of works that no thread waits for */
};

#endif
