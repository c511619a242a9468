/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that is complete on return, for callers without a stream that are not inside a device. */
#include "device/device.h"

static void leave(struct tti_device_session *x)
{
    if (x->event) {
        x->device->event_destroy(x->event, NULL);
    }
    if (x->stream) {
        x->device->stream_destroy(x->stream, NULL);
    }
    x->device->leave(&x->scope);
}

tutti_status tti_device_session_begin(DLDevice device, void *after, struct tti_device_session *x, tutti_error *error)
{
    const struct tti_device *d = tti_device_of(device.device_type);
    *x = (struct tti_device_session){.device = d, .index = device.device_id};
    tutti_status status = d->enter(device.device_id, &x->scope, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if ((status = d->stream_create(&x->stream, error)) == TUTTI_OK &&
        (status = d->event_create(&x->event, error)) == TUTTI_OK && after) {
        status = d->stream_wait_event(x->stream, after, error);
    }
    if (status != TUTTI_OK) {
        leave(x);
    }
    return status;
}

tutti_status tti_device_session_end(struct tti_device_session *x, tutti_status status, int64_t deadline_ns,
                                    tutti_error *error)
{
    tutti_error later; /* after a failure, end also waits for the work queued before */
    tutti_error *reported = status == TUTTI_OK ? error : &later;
    tutti_status ended = x->device->event_record(x->event, x->stream, reported);
    if (ended == TUTTI_OK) {
        ended = tti_device_await_or_note(x->device, x->index, &x->event, &x->stream, deadline_ns, reported);
    }
    x->done = ended == TUTTI_OK;
    leave(x);
    return status == TUTTI_OK ? ended : status;
}

tutti_status tti_device_copy_sync(DLDevice device, const struct tti_device_copy *copies, size_t count,
                                  tutti_error *error)
{
    struct tti_device_session x;
    tutti_status status = tti_device_session_begin(device, NULL, &x, error);
    if (status != TUTTI_OK) {
        return status;
    }
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = x.device->copy(copies[i].dst, copies[i].src, copies[i].bytes, x.stream, error);
    }
    return tti_device_session_end(&x, status, INT64_MAX, error);
}

tutti_status tti_device_alloc(DLDevice device, size_t bytes, void **memory, tutti_error *error)
{
    const struct tti_device *d = tti_device_of(device.device_type);
    struct tti_device_scope scope;
    tutti_status status = d->enter(device.device_id, &scope, error);
    if (status == TUTTI_OK) {
        status = d->alloc(bytes, memory, error);
        d->leave(&scope);
    }
    return status;
}

void tti_device_free(DLDevice device, void *memory)
{
    const struct tti_device *d = tti_device_of(device.device_type);
    struct tti_device_scope scope;
    if (d->enter(device.device_id, &scope, NULL) == TUTTI_OK) { /* else the driver is shut down, and has freed it */
        tti_device_release(d, device.device_id, memory, false);
        d->leave(&scope);
    }
}
