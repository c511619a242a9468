/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti/events.h. */
#include <tutti/events.h>

#include <stdbool.h>

#include "api/async/start_verify.h"
#include "api/group/group.h"
#include "base/error.h"
#include "core/async/events.h"
#include "core/call/call.h"
#include "core/group/group_table.h"

/* The object, acquired; or NULL with the status and a sentence. */
static struct tti_events *hold(tutti_events *handle, const char *function, tutti_error *error, tutti_status *status)
{
    struct tti_events *e = tti_events_acquire(handle, status);
    if (!e) {
        tti_handle_error(error, *status, function, "events object", TTI_KIND_EVENTS);
    }
    return e;
}

/* Writes the sentence for a status of the core, and releases the object. */
static tutti_status end(struct tti_events *e, const char *function, tutti_status status, tutti_error *error)
{
    switch (status) {
    case TUTTI_OK:
        tti_error_clear(error);
        break;
    case TUTTI_BAD_STATE:
        tti_error_set(error, status, "%s: the events object has been destroyed", function);
        break;
    case TUTTI_NO_MEMORY:
        tti_error_set(error, status, "%s: no memory for another handler", function);
        break;
    case TUTTI_NOT_FOUND:
        tti_error_set(error, status, "%s: there is no such listener, or it has been removed or called already",
                      function);
        break;
    case TUTTI_WOULD_DEADLOCK:
        tti_error_set(
            error, status,
            "%s: called from a handler of another group, for which the handler to remove waits; call again after this "
            "handler has returned",
            function);
        break;
    }
    if (error) {
        error->rank = tti_events_group(e)->rank;
    }
    tti_events_release(e);
    return status;
}

tutti_status tutti_events_create(tutti_group *group, tutti_events **events, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "events_create", error, &status);
    if (!g) {
        return status;
    }
    int32_t rank = g->rank;
    if (!events) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "events_create: the pointer for the object is NULL");
    } else if ((status = tti_events_create(g, events, error)) == TUTTI_OK) {
        tti_error_clear(error);
    }
    if (status != TUTTI_OK) {
        tti_group_release(g);
    }
    if (error) {
        error->rank = rank;
    }
    return status;
}

/* Adds a listener or handler; `function` is the public name. */
static tutti_status add(tutti_events *events, const char *function, const struct tti_subscription *subscription,
                        int64_t *listener, tutti_error *error)
{
    if (!subscription->handler) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the handler is NULL", function);
    }
    tutti_status status = TUTTI_OK;
    struct tti_events *e = hold(events, function, error, &status);
    if (!e) {
        return status;
    }
    return end(e, function, tti_events_add(e, subscription, listener), error);
}

tutti_status tutti_events_on_complete(tutti_events *events, tutti_event_handler handler, void *user, int64_t *listener,
                                      tutti_error *error)
{
    struct tti_subscription subscription = {.handler = handler, .user = user};
    return add(events, "events_on_complete", &subscription, listener, error);
}

tutti_status tutti_events_on_error(tutti_events *events, tutti_event_handler handler, void *user, int64_t *listener,
                                   tutti_error *error)
{
    struct tti_subscription subscription = {.failures = true, .handler = handler, .user = user};
    return add(events, "events_on_error", &subscription, listener, error);
}

tutti_status tutti_events_on_operation(tutti_events *events, int64_t operation_id, tutti_event_handler handler,
                                       void *user, int64_t *listener, tutti_error *error)
{
    struct tti_subscription subscription = {.operation_id = operation_id, .handler = handler, .user = user};
    if (operation_id == 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "events_on_operation: operation_id is 0, which means no number; pass the operation_id "
                             "of a call");
    }
    return add(events, "events_on_operation", &subscription, listener, error);
}

/* tutti_events_start with valid arguments: adds the handler, starts, and removes the handler if the start failed. */
static tutti_status start_with(struct tti_events *e, const struct tti_subscription *subscription,
                               tutti_start_function start, void *start_user, const tutti_call *options,
                               tutti_work **work, tutti_error *error)
{
    int64_t listener = 0;
    tutti_status status = subscription->handler ? tti_events_add(e, subscription, &listener) : TUTTI_OK;
    if (status != TUTTI_OK) {
        return end(e, "events_start", status, error);
    }
    tutti_work *started_work = NULL;
    tti_error_clear(error);
    tutti_group *group = tti_events_group(e)->handle;
    const struct tti_start_expected order = {.group = group, .operation_id = subscription->operation_id};
    status = start(group, options, start_user, &started_work);
    const bool reported = status != TUTTI_OK && error->status == status;
    status = tti_start_verify(status, started_work, &order, error);
    if (status != TUTTI_OK && !reported) {
        const tutti_error cause = *error;
        tti_error_set(error, status, "events_start: %s", cause.message);
    }
    if (status != TUTTI_OK && subscription->handler) {
        tti_events_remove(e, listener);
    }
    if (error->rank < 0) {
        error->rank = tti_events_group(e)->rank;
    }
    tti_events_release(e);
    if (status == TUTTI_OK && work) {
        *work = started_work;
    } else if (status == TUTTI_OK) {
        tutti_work_release(started_work);
    }
    return status;
}

tutti_status tutti_events_start(tutti_events *events, int64_t operation_id, tutti_start_function start,
                                void *start_user, const tutti_call *call, tutti_event_handler handler, void *user,
                                tutti_work **work, tutti_error *error)
{
    tutti_call options;
    tutti_call_init(&options);
    tutti_error own;
    if (call && !tti_call_options_copy(&options, call)) {
        const tutti_status refused = tti_call_options_refuse(call, "events_start", &own);
        if (error) {
            *error = own;
        }
        return refused;
    }
    tutti_error *callers = options.error; /* both errors of the caller are filled */
    options.error = &own;
    options.operation_id = operation_id;
    struct tti_subscription subscription = {.operation_id = operation_id, .handler = handler, .user = user};
    tutti_status status = TUTTI_OK;
    struct tti_events *e = NULL;
    if (!start) {
        status = tti_error_set(&own, TUTTI_INVALID_ARGUMENT, "events_start: the start function is NULL");
    } else if (handler && operation_id == 0) {
        status =
            tti_error_set(&own, TUTTI_INVALID_ARGUMENT,
                          "events_start: operation_id is 0, which means that an operation has no number, but there "
                          "is a handler for it");
    } else if ((e = hold(events, "events_start", &own, &status))) {
        status = start_with(e, &subscription, start, start_user, &options, work, &own);
    }
    if (callers) {
        *callers = own;
    }
    if (error) {
        *error = own;
    }
    return status;
}

tutti_status tutti_events_remove(tutti_events *events, int64_t listener, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_events *e = hold(events, "events_remove", error, &status);
    if (!e) {
        return status;
    }
    return end(e, "events_remove", tti_events_remove(e, listener), error);
}

tutti_status tutti_events_destroy(tutti_events *events, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_events *e = hold(events, "events_destroy", error, &status);
    if (!e) {
        return status;
    }
    return end(e, "events_destroy", tti_events_destroy(e), error);
}
