/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work that still runs when its waiter has given up, and memory that is released meanwhile. To free memory of a device,
 * or pinned memory, the driver waits for all work on the device: if a kernel does not end, for ever. So such memory is
 * kept, and freed by the first release that finds the work ended.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/device.h"

struct late {
    struct late *next;
    const struct tti_device *device;
    int32_t index;
    void *event;  /* behind work; or, if NULL, ... */
    void *memory; /* ... memory that waits for work */
    bool pinned;  /* memory of the host */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct late *first;

/* Without memory for the note, `l` stays as it is until the process ends. With the lock held. */
static void note(struct late l)
{
    struct late *noted = malloc(sizeof(*noted));
    if (noted) {
        *noted = l;
        noted->next = first;
        first = noted;
    }
}

void tti_device_note_late(const struct tti_device *d, int32_t index, void *event)
{
    pthread_mutex_lock(&lock);
    note((struct late){.device = d, .index = index, .event = event});
    pthread_mutex_unlock(&lock);
}

static bool is_of(const struct late *l, const struct tti_device *d, int32_t index)
{
    return l->device == d && l->index == index;
}

static bool has_ended(const struct late *l)
{
    int32_t done = 0;
    /* an error: the device has failed, and runs nothing any more */
    return l->event && (l->device->event_query(l->event, &done, NULL) != TUTTI_OK || done);
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
    return l != NULL;
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
    } else if (l->pinned) {
        l->device->free_host(l->memory, NULL);
    } else {
        l->device->free(l->memory, NULL);
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

void tti_device_release(const struct tti_device *d, int32_t index, void *memory, bool pinned)
{
    if (!memory) {
        return;
    }
    const struct late own = {.device = d, .index = index, .memory = memory, .pinned = pinned};
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
