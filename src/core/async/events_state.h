/* SPDX-License-Identifier: BSD-3-Clause */
/* The listeners and handlers of a group: the part that lies in the group. See events.c. */
#ifndef TTI_CORE_ASYNC_EVENTS_STATE_H
#define TTI_CORE_ASYNC_EVENTS_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define TTI_EVENTS_OBJECTS 16u /* per group */
#define TTI_EVENTS_BUCKETS 33  /* 32 for handlers, by number, and the last one for listeners */

/* A link of a circular list. A bucket is a list head, which is linked to itself while the bucket is empty. */
struct tti_events_link {
    struct tti_events_link *next;
    struct tti_events_link *previous;
};

struct tti_events_list {
    _Atomic uint32_t objects; /* written under the lock, read anywhere, as `newest` */
    _Atomic int64_t newest;   /* the number of the last object that was made */
    pthread_mutex_t lock;     /* everything below, and the entries */
    pthread_cond_t returned;  /* `calling` has changed */
    struct tti_events_link buckets[TTI_EVENTS_BUCKETS];
    int64_t added;                  /* entries so far */
    struct tti_listener *calling;   /* the entry whose function is running */
    struct tti_events_list *awaits; /* under a lock in events.c: the list whose handler the running one waits for */
};

#endif
