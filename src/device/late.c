/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Late work: the deadline of a caller has passed, and the work still runs. The driver frees memory of a device, and
 * pinned memory, only when all work on the device has ended, so a kernel that does not end would block it without
 * limit. So what is released while late work runs goes on a list. The first release that finds the work ended frees it.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/device.h"

struct late {
    struct late *next;
    const struct tti_device *device;
    int32_t index;
    void *event;  /* recorded behind late work; NULL: this entry is memory to free */
    void *stream; /* of the work, to be destroyed with the event; NULL: the caller keeps it */
    void *memory; /* to free when all late work of the device has ended */
    void (*free)(const void *owner, void *memory); /* of `memory` */
    const void *owner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct late *first;
static bool unnoted; /* there was no memory for the note of an event: nothing is freed from then on */

/* With the lock held. */
static void note(struct late l)
{
    struct late *noted = malloc(sizeof(*noted));
    if (noted) {
        *noted = l;
        noted->next = first;
        first = noted;
    } else {
        unnoted = unnoted || l.event;
    }
}

void tti_device_note_late(const struct tti_device *d, int32_t index, void *event, void *stream)
{
    pthread_mutex_lock(&lock);
    note((struct late){.device = d, .index = index, .event = event, .stream = stream});
    pthread_mutex_unlock(&lock);
}

tutti_status tti_device_await_or_note(const struct tti_device *d, int32_t index, void **event, void **stream,
                                      int64_t deadline_ns, tutti_error *error)
{
    const tutti_status status = tti_device_await(d, *event, deadline_ns, error);
    if (status == TUTTI_TIMEOUT) {
        tti_device_note_late(d, index, *event, stream ? *stream : NULL);
        *event = NULL;
        if (stream) {
            *stream = NULL;
        }
    }
    return status;
}

static bool is_of(const struct late *l, const struct tti_device *d, int32_t index)
{
    return l->device == d && l->index == index;
}

/* After an error the work may still run. A device that has failed frees nothing either. */
static bool has_ended(const struct late *l)
{
    int32_t done = 0;
    return l->event && l->device->event_query(l->event, &done, NULL) == TUTTI_OK && done;
}

static bool is_memory(const struct late *l)
{
    return !l->event;
}

static bool is_busy(const struct tti_device *d, int32_t index)
{
    const struct late *l = first;
    while (l && (!is_of(l, d, index) || is_memory(l))) {
        l = l->next;
    }
    return l || unnoted;
}

static struct late *take(const struct tti_device *d, int32_t index, bool (*wanted)(const struct late *l))
{
    struct late *taken = NULL;
    for (struct late **at = &first; *at;) {
        struct late *l = *at;
        if (is_of(l, d, index) && wanted(l)) {
            *at = l->next;
            l->next = taken;
            taken = l;
        } else {
            at = &l->next;
        }
    }
    return taken;
}

static void end(const struct late *l)
{
    if (l->event) {
        l->device->event_destroy(l->event, NULL);
        if (l->stream) {
            l->device->stream_destroy(l->stream, NULL);
        }
    } else {
        l->free(l->owner, l->memory);
    }
}

static void end_all(struct late *l)
{
    while (l) {
        struct late *next = l->next;
        end(l);
        free(l);
        l = next;
    }
}

static void free_on_device(const void *owner, void *memory)
{
    const struct tti_device *d = owner;
    d->free(memory, NULL);
}

static void free_pinned(const void *owner, void *memory)
{
    const struct tti_device *d = owner;
    d->free_host(memory, NULL);
}

void tti_device_release(const struct tti_device *d, int32_t index, void *memory, bool pinned)
{
    tti_device_release_by(d, index, memory, pinned ? free_pinned : free_on_device, d);
}

void tti_device_release_by(const struct tti_device *d, int32_t index, void *memory,
                           void (*free_memory)(const void *owner, void *memory), const void *owner)
{
    if (!memory) {
        return;
    }
    const struct late own = {.device = d, .index = index, .memory = memory, .free = free_memory, .owner = owner};
    pthread_mutex_lock(&lock);
    struct late *ended = take(d, index, has_ended);
    const bool busy = is_busy(d, index);
    struct late *waiting = busy ? NULL : take(d, index, is_memory);
    if (busy) {
        note(own);
    }
    pthread_mutex_unlock(&lock);
    end_all(ended);
    end_all(waiting);
    if (!busy) {
        end(&own);
    }
}
