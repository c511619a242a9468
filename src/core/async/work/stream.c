/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that wait for works. The stream waits until a word of pinned memory has reached a value. The thread that ends
 * the work writes that value. A word is used again at once, with a value one higher: a stream that reads the word late
 * reads a higher value than its own, and goes on. Words belong to the process and are never freed, so a work may end
 * after its group or its device is gone.
 */
#include "core/async/work/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/timer.h"
#include "core/async/work/stage.h"
#include "core/async/work/work.h"
#include "core/group/group_table.h"

#define WORDS 1024 /* of a block */

/* A word, while a work has it. */
struct stream_wait {
    struct tti_watch watch;
    struct stream_wait *next; /* while it is free */
    const struct tti_device *device;
    _Atomic uint32_t *word; /* read by the device; release: the work's results are there */
    uint32_t value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream_wait *idle;

static void give(struct stream_wait *s)
{
    pthread_mutex_lock(&lock);
    s->next = idle;
    idle = s;
    pthread_mutex_unlock(&lock);
}

static void ended(struct tti_watch *watch)
{
    struct stream_wait *s = (struct stream_wait *)watch; /* its first member */
    atomic_store_explicit(s->word, s->value, memory_order_release);
    give(s);
}

/* Allocates more words. With the lock held, and inside the device. */
static tutti_status add_words(const struct tti_device *device, tutti_error *error)
{
    void *memory;
    struct stream_wait *more = calloc(WORDS, sizeof(*more));
    if (!more) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for streams that wait");
    }
    tutti_status status = device->alloc_host(WORDS * sizeof(uint32_t), &memory, error);
    if (status != TUTTI_OK) {
        free(more);
        return status;
    }
    for (size_t i = 0; i < WORDS; i++) {
        more[i].device = device;
        more[i].word = (_Atomic uint32_t *)memory + i;
        more[i].watch.ended = ended;
        atomic_init(more[i].word, 0);
        more[i].next = idle;
        idle = &more[i];
    }
    return TUTTI_OK;
}

static struct stream_wait *find(const struct tti_device *device)
{
    for (struct stream_wait **link = &idle; *link; link = &(*link)->next) {
        if ((*link)->device == device) {
            struct stream_wait *s = *link;
            *link = s->next;
            return s;
        }
    }
    return NULL;
}

/* Takes a word for the calling thread alone; NULL with the reason in *status. */
static struct stream_wait *take(const struct tti_device *device, tutti_status *status, tutti_error *error)
{
    pthread_mutex_lock(&lock);
    struct stream_wait *s = find(device);
    if (!s && (*status = add_words(device, error)) == TUTTI_OK) {
        s = find(device);
    }
    pthread_mutex_unlock(&lock);
    if (s) {
        s->value++;
    }
    return s;
}

/* Inside the device. UNSUPPORTED: it cannot wait for a word. */
static tutti_status queue_wait(struct tti_work *w, const struct tti_device *device, void *stream, tutti_error *error)
{
    tutti_status status = TUTTI_UNSUPPORTED;
    struct stream_wait *s = device->stream_wait_word ? take(device, &status, error) : NULL;
    if (!s) {
        return status;
    }
    status = device->stream_wait_word(stream, (const uint32_t *)s->word, s->value, error);
    if (status != TUTTI_OK) {
        give(s);
    } else if (!tti_work_watch(w, &s->watch)) {
        ended(&s->watch);
    } else {
        tti_work_push(w); /* perhaps no thread waits for it */
    }
    return status;
}

tutti_status tti_work_wait_stream(struct tti_work *w, void *stream, tutti_error *error)
{
    tutti_status status;
    struct tti_group *g = tti_work_ended(w) ? NULL : tti_group_acquire(tti_work_group_handle(w), &status);
    if (!g) {
        return tti_error_clear(error); /* it has ended: there is nothing to wait for */
    }
    struct tti_device_scope scope;
    if (g->device_ops->type == kDLCPU) {
        status =
            tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                          "work_wait_stream: the group works on the CPU, which has no streams; use tutti_work_wait");
    } else if ((status = g->device_ops->enter(g->device.device_id, &scope, error)) == TUTTI_OK) {
        status = queue_wait(w, g->device_ops, stream, error);
        g->device_ops->leave(&scope);
    }
    tti_group_release(g);
    if (status == TUTTI_UNSUPPORTED) { /* then this thread waits instead */
        if (tti_work_would_deadlock(w)) {
            return tti_error_set(error, TUTTI_WOULD_DEADLOCK,
                                 "work_wait_stream: called from a callback of the group, on a device whose streams "
                                 "cannot wait for an operation");
        }
        tti_work_wait(w, TTI_NEVER);
        status = TUTTI_OK;
    }
    return status == TUTTI_OK ? tti_error_clear(error) : status;
}
