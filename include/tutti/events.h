/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/events.h - being told when asynchronous operations end.
 *
 * An events object watches one group. Listeners hear of every asynchronous operation of the group that was started after
 * the object was made and ends after they were added: on_complete of those that ended OK, on_error of the others. Handlers hear of the operations that carry
 * their number (`.operation_id` of the call, not 0), however they end, or with TUTTI_HANDLERS_ON_OK in the flags of the call
 * only if they end OK: else they are removed uncalled, and on_error tells. A number may have several.
 *
 * Each is called exactly once per operation, in the order in which the operations end (within a group, one at a time), on
 * the thread that ended it: the lane's. Within one end: first listeners in the order they were added, then handlers. An
 * operation that ends while it is being started is not missed: tutti_events_start adds the handler first. Handlers may
 * start and release work, add and remove handlers, themselves included; waiting in them is WOULD_DEADLOCK. When remove or
 * destroy returns, the handler is not running and will not run again (except when called from inside it: then it is
 * finished after it returns).
 */
#ifndef TUTTI_EVENTS_H
#define TUTTI_EVENTS_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_events tutti_events;

/** One operation that has ended. Valid during the handler only. */
typedef struct tutti_event {
    uint32_t size;
    tutti_status status;
    tutti_operation operation;
    int32_t lane;
    int64_t operation_id; /* 0 if its call gave none */
    tutti_work *work;     /* its handle; stale if it was released */
    const tutti_error *error;
} tutti_event;
TUTTI_STATIC_ASSERT(sizeof(tutti_event) == 16 + 8 + 2 * sizeof(void *), "no padding");

typedef void (*tutti_event_handler)(const tutti_event *event, void *user);

/** Watches a group. At most 16 per group (NO_RESOURCE). The group cannot be destroyed before it: BUSY. */
TUTTI_API tutti_status tutti_events_create(tutti_group *group, tutti_events **events, tutti_error *error);

/** Adds a listener for operations that end OK / that end otherwise. *listener (may be NULL) is for tutti_events_remove. */
TUTTI_API tutti_status tutti_events_on_complete(tutti_events *events, tutti_event_handler handler, void *user,
                                                int64_t *listener, tutti_error *error);
TUTTI_API tutti_status tutti_events_on_error(tutti_events *events, tutti_event_handler handler, void *user,
                                             int64_t *listener, tutti_error *error);

/** Adds a handler for the next operation with that number to end; it is removed when it has been called. */
TUTTI_API tutti_status tutti_events_on_operation(tutti_events *events, int64_t operation_id,
                                                 tutti_event_handler handler, void *user, int64_t *listener,
                                                 tutti_error *error);

/**
 * Adds the handler (may be NULL: none) for the number, then runs `start` with call options that carry it. If the start
 * fails, the handler is removed uncalled and the status returned. `call` may be NULL; *work as from any `_async`
 * function, or NULL to release it at once. If `start` starts an operation without the number, or on another group, its end
 * is waited for (except in a callback of its group), its work is released, and the answer is INVALID_ARGUMENT.
 */
TUTTI_API tutti_status tutti_events_start(tutti_events *events, int64_t operation_id, tutti_start_function start,
                                          void *start_user, const tutti_call *call, tutti_event_handler handler,
                                          void *user, tutti_work **work, tutti_error *error);

/** Takes a listener or handler away. NOT_FOUND if it is not there (any more). WOULD_DEADLOCK, and nothing has changed, if
 *  handlers of several groups wait for one another in a circle like this; so does destroy. */
TUTTI_API tutti_status tutti_events_remove(tutti_events *events, int64_t listener, tutti_error *error);

/** Takes all of them away and forgets the group. BAD_STATE the second time. Operations go on. */
TUTTI_API tutti_status tutti_events_destroy(tutti_events *events, tutti_error *error);

TUTTI_END_DECLS

#endif
