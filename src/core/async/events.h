/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listeners and handlers of a group, which are notified of the end of asynchronous operations, and the events
 * objects, by which the application adds and removes them.
 *
 * A group runs one handler at a time (its callback lock). A handler runs without any lock of this file, so it may add
 * and remove entries. Entries are in the order of their adding. An entry stays linked while its function runs, so the
 * walk over the others goes on from there.
 */
#ifndef TTI_CORE_ASYNC_EVENTS_H
#define TTI_CORE_ASYNC_EVENTS_H

#include <stdbool.h>
#include <tutti/events.h>

#include "core/group/group_state.h"

struct tti_events;
struct tti_events_list;

void tti_events_list_init(struct tti_events_list *list);

/* There are no events objects any more. */
void tti_events_list_free(struct tti_events_list *list);

/* The number of the newest events object of the group; 0 if it has none. */
static inline int64_t tti_events_newest(const struct tti_group *group)
{
    /* acquire: pairs with the release in tti_events_create; the list itself is read under its lock */
    return atomic_load_explicit(&group->events.objects, memory_order_acquire) > 0
               ? atomic_load_explicit(&group->events.newest, memory_order_relaxed)
               : 0;
}

/* Calls the listeners, then the handlers for event->operation_id. With `on_ok`, handlers of an operation that did not
 * end OK are removed instead. Only those of objects up to `newest`, which the group had when the operation started.
 * With the group's callback lock held; the caller keeps the group alive. */
void tti_events_notify(struct tti_group *group, const tutti_event *event, int64_t newest, bool on_ok);

/* Makes an object. It takes over the caller's reference on the group until its end. NO_RESOURCE, NO_MEMORY: the
 * reference remains the caller's. */
tutti_status tti_events_create(struct tti_group *group, tutti_events **handle, tutti_error *error);

/* The object, with the caller counted as its user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. It may
 * be destroyed while it is held: then it only returns BAD_STATE. */
struct tti_events *tti_events_acquire(tutti_events *handle, tutti_status *why);
void tti_events_release(struct tti_events *events);

/* Valid while the object is held. */
struct tti_group *tti_events_group(const struct tti_events *events);

/* The function that is called, and for which ends. */
struct tti_subscription {
    int64_t operation_id; /* 0: a listener, for all operations */
    bool failures;        /* listeners: of those that did not end OK, else of those that did */
    tutti_event_handler handler;
    void *user;
};

/* OK, BAD_STATE or NO_MEMORY. `listener` may be NULL. */
tutti_status tti_events_add(struct tti_events *events, const struct tti_subscription *subscription, int64_t *listener);

/* OK, NOT_FOUND, BAD_STATE: its function is not running on another thread. WOULD_DEADLOCK, and nothing has changed: the
 * function is running and waits, through a chain of such calls, for a handler that this thread is in. */
tutti_status tti_events_remove(struct tti_events *events, int64_t listener);

/* OK, BAD_STATE (destroyed before), or WOULD_DEADLOCK as above. */
tutti_status tti_events_destroy(struct tti_events *events);

/* For tutti_finalize, over all groups: whether a thread is inside a call on any object; destroys all objects. */
bool tti_events_in_use(void);
void tti_events_destroy_all(void);

#endif
