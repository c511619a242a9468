/* SPDX-License-Identifier: BSD-3-Clause */
/* What a queue consists of, for queue.c and queue_wait.c. */
#ifndef TTI_CORE_QUEUE_QUEUE_STATE_H
#define TTI_CORE_QUEUE_QUEUE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "core/async/work/stage.h"

struct tti_queue_member {
    struct tti_watch watch;
    struct tti_queue *queue;
    struct tti_work *work; /* the member is a user of it */
    int64_t serial;        /* counts up from 0 in each queue */
    uint32_t users;        /* the queue and threads that have pinned it, under the lock; the last one drops the work */
    struct tti_queue_member *next; /* in the list of spare ones, or of those that are being cleared */
};

struct tti_queue {
    tutti_queue *handle;
    pthread_mutex_t lock; /* all but `changes` and `sleepers` */
    struct tti_queue_member **members;
    size_t count;
    size_t capacity;
    int64_t next_serial;
    int64_t next_push; /* members from this serial number on have not been pushed */
    struct tti_queue_member *spare;
    _Atomic uint32_t changes;
    _Atomic uint32_t sleepers;
};

/* The next member that has not ended, from a serial number on; NULL if there is none. With the lock. */
struct tti_queue_member *tti_queue_next_open(const struct tti_queue *queue, int64_t serial);

/* Pins a member: it stays even if another thread clears the queue meanwhile. With the lock. */
static inline void tti_queue_pin(struct tti_queue_member *member)
{
    member->users++;
}

/* Ends the use of a pinned member. Without the lock. Returns the serial number to go on with. */
int64_t tti_queue_unpin(struct tti_queue *queue, struct tti_queue_member *member);

#endif
