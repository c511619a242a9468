/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread runs the ends in the order in which they were added. Cost of one: a lock twice, and waking the thread. */
#include "core/async/deferred_ends.h"

#include <stddef.h>

#include "core/call/call.h"

static struct tti_deferred *take_first(struct tti_deferred_ends *ends)
{
    pthread_mutex_lock(&ends->lock);
    struct tti_deferred *d = ends->first;
    if (d) {
        ends->first = d->next;
        ends->end = ends->first ? ends->end : &ends->first;
    }
    pthread_mutex_unlock(&ends->lock);
    return d;
}

static void serve(struct tti_worker *worker)
{
    struct tti_deferred_ends *ends =
        (struct tti_deferred_ends *)((char *)worker - offsetof(struct tti_deferred_ends, worker));
    struct tti_deferred *d;
    while ((d = take_first(ends))) {
        d->run(d);
        tti_callbacks_hand_over_deferred(); /* what its callback has completed, perhaps of other groups */
    }
}

void tti_deferred_ends_init(struct tti_deferred_ends *ends)
{
    pthread_mutex_init(&ends->lock, NULL);
    ends->first = NULL;
    ends->end = &ends->first;
    tti_worker_init(&ends->worker, serve);
}

void tti_deferred_ends_close(struct tti_deferred_ends *ends)
{
    tti_worker_stop(&ends->worker);
    pthread_mutex_destroy(&ends->lock);
}

void tti_deferred_ends_add(struct tti_deferred_ends *ends, struct tti_deferred *deferred)
{
    deferred->next = NULL;
    pthread_mutex_lock(&ends->lock);
    *ends->end = deferred;
    ends->end = &deferred->next;
    pthread_mutex_unlock(&ends->lock);
    tti_worker_notify(&ends->worker);
}
