/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is told when asynchronous operations end: the listeners and handlers of a group, kept in the group, and the
 * objects by which the application adds and removes them.
 *
 * A group calls one handler at a time (its callback lock), and a handler runs without any lock of this file: it may add
 * and remove. Entries stand in the order in which they were added; one that is being called stays in its place until it
 * has returned, so the walk over the others goes on from there whatever happened meanwhile.
 */
#ifndef TTI_CORE_EVENTS_H
#define TTI_CORE_EVENTS_H

#include <stdbool.h>
#include <tutti/events.h>

struct tti_group;
struct tti_events;
struct tti_events_list;

void tti_events_list_init(struct tti_events_list *list);

/* There are no events objects any more. */
void tti_events_list_free(struct tti_events_list *list);

/* A cheap look whether the group has any events object. */
bool tti_events_has_any(struct tti_group *group);

/* Calls the listeners, then the handlers for event->operation_id: if they are to be called only `on_ok`, and it did not end
 * OK, removes these instead. With the group's callback lock held; the caller keeps the group alive. */
void tti_events_notify(struct tti_group *group, const tutti_event *event, bool on_ok);

/* Makes an object, which takes over the caller's reference on the group, and gives it back at its end. NO_RESOURCE and
 * NO_MEMORY: the reference remains the caller's. */
tutti_status tti_events_create(struct tti_group *group, tutti_events **handle, tutti_error *error);

/* The object, with the caller counted as its user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. It may
 * be destroyed while it is held: what can be done with it is BAD_STATE then. */
struct tti_events *tti_events_acquire(tutti_events *handle, tutti_status *why);
void tti_events_release(struct tti_events *events);

/* Valid while the object is held. */
struct tti_group *tti_events_group(const struct tti_events *events);

/* Who is to be called, and when. */
struct tti_subscription {
    int64_t operation_id; /* 0: a listener, for all operations */
    bool failures;        /* listeners: of those that did not end OK, else of those that did */
    tutti_event_handler handler;
    void *user;
};

/* OK, BAD_STATE or NO_MEMORY. `listener` may be NULL. */
tutti_status tti_events_add(struct tti_events *events, const struct tti_subscription *subscription, int64_t *listener);

/* OK, NOT_FOUND, BAD_STATE; in all these cases it is not running on another thread. WOULD_DEADLOCK, and nothing has
 * changed: it is running, and waits, through a chain of such calls, for a handler that this thread is in. */
tutti_status tti_events_remove(struct tti_events *events, int64_t listener);

/* OK, BAD_STATE (destroyed before), or WOULD_DEADLOCK as above. */
tutti_status tti_events_destroy(struct tti_events *events);

/* Of all groups, for tutti_finalize: whether a thread is inside a call on any object; destroys them. */
bool tti_events_in_use(void);
void tti_events_destroy_all(void);

#endif
