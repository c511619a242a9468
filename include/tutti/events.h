/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/events.h - handlers that run when asynchronous operations end.
 *
 * An events object watches the asynchronous operations of one group that start after it was made. Listeners are called
 * for each one that ends after the listener was added: on_complete if it ends OK, on_error otherwise. Handlers are
 * called for those with their number (`.operation_id` of the call, not 0), however those end. With TUTTI_HANDLERS_ON_OK
 * in the call's flags they are called only if the operation ends OK, and else removed uncalled. A number may have
 * several handlers.
 *
 * Each one is called exactly once for an operation, on the thread that ended it (the lane's), in the order in which the
 * operations of the group end. For one operation listeners come first, in the order they were added, then handlers. No
 * end is missed: tutti_events_start adds the handler before the operation starts. Handlers may start and release works,
 * and add and remove handlers, also themselves. A blocking call in them returns WOULD_DEADLOCK. After remove or destroy
 * returns, the handler does not run again. If it is removed from inside itself, it finishes after it returns.
 */
#ifndef TUTTI_EVENTS_H
#define TUTTI_EVENTS_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_events tutti_events;

/** An operation that has ended. Valid during the handler only. */
typedef struct tutti_event {
    uint32_t size;
    tutti_status status;
    tutti_operation operation;
    int32_t lane;
    int64_t operation_id; /* 0 if its call gave none */
    tutti_work *work;     /* its handle; stale if it was released. A persistent operation owns its handles: another
                             release, and a queue, get BAD_STATE */
    const tutti_error *error;
} tutti_event;
TUTTI_STATIC_ASSERT(sizeof(tutti_event) == 16 + 8 + 2 * sizeof(void *), "no padding");

typedef void (*tutti_event_handler)(const tutti_event *event, void *user);

/** Watches a group. At most 16 for each group (NO_RESOURCE). While it exists, tutti_group_destroy returns BUSY. */
TUTTI_API tutti_status tutti_events_create(tutti_group *group, tutti_events **events, tutti_error *error);

/**
 * Adds a listener for operations that end OK / that fail. *listener (may be NULL) is the argument of
 * tutti_events_remove.
 */
TUTTI_API tutti_status tutti_events_on_complete(tutti_events *events, tutti_event_handler handler, void *user,
                                                int64_t *listener, tutti_error *error);
TUTTI_API tutti_status tutti_events_on_error(tutti_events *events, tutti_event_handler handler, void *user,
                                             int64_t *listener, tutti_error *error);

/** Adds a handler for the next operation with that number that ends. It is removed after its call. */
TUTTI_API tutti_status tutti_events_on_operation(tutti_events *events, int64_t operation_id,
                                                 tutti_event_handler handler, void *user, int64_t *listener,
                                                 tutti_error *error);

/**
 * Adds the handler (NULL: none) for the number, then runs `start` with call options that contain the number. If the
 * start fails, removes the handler uncalled and returns the status. `call` may be NULL. *work is as from any `_async`
 * function; NULL releases it at once. INVALID_ARGUMENT if `start` starts an operation without the number, or on another
 * group: then that operation is awaited (except in a callback of its group) and its work released.
 */
TUTTI_API tutti_status tutti_events_start(tutti_events *events, int64_t operation_id, tutti_start_function start,
                                          void *start_user, const tutti_call *call, tutti_event_handler handler,
                                          void *user, tutti_work **work, tutti_error *error);

/**
 * Removes a listener or handler. NOT_FOUND if it does not exist. WOULD_DEADLOCK, without a change, if handlers of
 * several groups wait for each other's removal in a cycle; destroy, too.
 */
TUTTI_API tutti_status tutti_events_remove(tutti_events *events, int64_t listener, tutti_error *error);

/** Removes all listeners and handlers and the object. BAD_STATE the second time. Operations go on. */
TUTTI_API tutti_status tutti_events_destroy(tutti_events *events, tutti_error *error);

TUTTI_END_DECLS

#endif
