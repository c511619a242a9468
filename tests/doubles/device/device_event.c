/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events. Recording an event queues a mark. A thread or stream that waits for the event waits for its last mark at that
 * time, so an event may be recorded again, or destroyed, during a wait.
 */
#include <stdlib.h>

#include "device_state.h"

struct mark {
    int users;
    bool done;
    int error;
    int device;
};

struct event {
    int device;
    struct mark *mark; /* of the last record; NULL: never recorded */
};

struct mark_op {
    struct tti_double_op op;
    struct mark *mark;
};

static void release(struct mark *mark)
{
    if (mark && --mark->users == 0) {
        free(mark);
    }
}

static void finish_record(struct tti_double_op *op, int code)
{
    struct mark *mark = ((struct mark_op *)op)->mark;
    mark->done = true;
    mark->error = code;
    release(mark);
}

static bool is_marked(const struct tti_double_op *op)
{
    return ((const struct mark_op *)op)->mark->done;
}

static void finish_wait(struct tti_double_op *op, int code)
{
    (void)code;
    release(((struct mark_op *)op)->mark);
}

static void free_event(struct event *event)
{
    release(event->mark);
    free(event);
}

int tti_double_event_create(int device, void **event)
{
    struct event *created = calloc(1, sizeof(*created));
    if (!created) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    created->device = device;
    pthread_mutex_lock(&tti_double.lock);
    void *handle = tti_double_handle_new(TTI_DOUBLE_EVENT_HANDLE, created);
    pthread_mutex_unlock(&tti_double.lock);
    if (!handle) {
        free(created);
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    *event = handle;
    return TTI_DOUBLE_OK;
}

int tti_double_event_destroy(void *event)
{
    pthread_mutex_lock(&tti_double.lock);
    struct event *found = tti_double_handle_get(TTI_DOUBLE_EVENT_HANDLE, event);
    if (found) {
        tti_double_handle_drop(TTI_DOUBLE_EVENT_HANDLE, event);
        free_event(found);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return found ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_HANDLE;
}

static bool close_event(void *event, int device)
{
    if (((struct event *)event)->device != device) {
        return false;
    }
    free_event(event);
    return true;
}

void tti_double_events_close(int device)
{
    tti_double_handle_drop_all(TTI_DOUBLE_EVENT_HANDLE, device, close_event);
}

/* Both at once: the event is only read under the lock. */
static int record(const char *function, struct event *event, struct tti_double_stream *stream)
{
    if (!event || !stream || event->device != stream->device) {
        return TTI_DOUBLE_INVALID_HANDLE;
    }
    struct mark *mark = calloc(1, sizeof(*mark));
    struct mark_op *op = calloc(1, sizeof(*op));
    if (!mark || !op) {
        free(mark);
        free(op);
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    mark->users = 2; /* the event and the operation */
    mark->device = stream->device;
    op->mark = mark;
    op->op.finish = finish_record;
    release(event->mark);
    event->mark = mark;
    return tti_double_enqueue(function, stream, &op->op);
}

int tti_double_event_record(const char *function, int device, void *event, void *stream)
{
    pthread_mutex_lock(&tti_double.lock);
    const int code =
        record(function, tti_double_handle_get(TTI_DOUBLE_EVENT_HANDLE, event), tti_double_stream_find(device, stream));
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

static int wait_for(const char *function, struct tti_double_stream *stream, struct event *event)
{
    if (!event || !stream) {
        return TTI_DOUBLE_INVALID_HANDLE;
    }
    if (!event->mark) {
        return TTI_DOUBLE_OK;
    }
    struct mark_op *op = calloc(1, sizeof(*op));
    if (!op) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    op->mark = event->mark;
    op->mark->users++;
    op->op.ready = is_marked;
    op->op.finish = finish_wait;
    return tti_double_enqueue(function, stream, &op->op);
}

int tti_double_stream_wait_event(const char *function, int device, void *stream, void *event)
{
    pthread_mutex_lock(&tti_double.lock);
    const int code = wait_for(function, tti_double_stream_find(device, stream),
                              tti_double_handle_get(TTI_DOUBLE_EVENT_HANDLE, event));
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

/* The current result of a query of a mark. */
static int state_of(const struct mark *mark)
{
    if (mark->done) {
        return mark->error;
    }
    const int error = tti_double.devices[mark->device].error;
    return error ? error : TTI_DOUBLE_NOT_READY;
}

int tti_double_event_query(void *event)
{
    pthread_mutex_lock(&tti_double.lock);
    const struct event *found = tti_double_handle_get(TTI_DOUBLE_EVENT_HANDLE, event);
    const int code = !found ? TTI_DOUBLE_INVALID_HANDLE : !found->mark ? TTI_DOUBLE_OK : state_of(found->mark);
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_event_synchronize(void *event)
{
    pthread_mutex_lock(&tti_double.lock);
    struct event *found = tti_double_handle_get(TTI_DOUBLE_EVENT_HANDLE, event);
    int code = found ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_HANDLE;
    if (found && found->mark) {
        struct mark *mark = found->mark;
        mark->users++;
        while ((code = state_of(mark)) == TTI_DOUBLE_NOT_READY && !tti_double.ending) {
            pthread_cond_wait(&tti_double.changed, &tti_double.lock);
        }
        release(mark);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code == TTI_DOUBLE_NOT_READY ? TTI_DOUBLE_DEINITIALIZED : code;
}
