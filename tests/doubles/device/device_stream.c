/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams. Each has a thread that does its operations in order; an operation leaves the queue when it is done, so the
 * first one in the queue is the oldest that is not. Every operation has a number in the order of queueing over all
 * streams, and by that the default stream of a device and its blocking streams wait for one another: an operation of
 * one begins when nothing older is left in the other.
 *
 * Before each operation the thread pauses a little, so that a missing wait shows.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device_state.h"

/* The vendors' handles of the default stream and of the thread's own. */
enum { LEGACY = 1, PER_THREAD = 2 };

/* The pause of a thread that polls memory. */
#define POLL_NS 50000

static bool older(const struct tti_double_stream *stream, uint64_t sequence)
{
    return stream && stream->head && stream->head->sequence <= sequence;
}

static bool is_default(const struct tti_double_stream *stream)
{
    return stream == tti_double.devices[stream->device].null_stream;
}

/* Whether a stream that this one waits for has older work. */
static bool held_up(const struct tti_double_stream *stream, uint64_t sequence)
{
    if (!is_default(stream)) {
        return stream->blocking && older(tti_double.devices[stream->device].null_stream, sequence);
    }
    for (const struct tti_double_stream *s = tti_double.streams; s; s = s->next) {
        if (s != stream && s->device == stream->device && s->blocking && older(s, sequence)) {
            return true;
        }
    }
    return false;
}

bool tti_double_stream_busy(const struct tti_double_stream *stream, uint64_t sequence)
{
    return older(stream, sequence) || (is_default(stream) && held_up(stream, sequence));
}

static void pause_before(struct tti_double_stream *stream)
{
    int64_t nanoseconds = tti_double_settings()->delay_us * INT64_C(1000);
    if (nanoseconds < 0) { /* xorshift; up to 16 us */
        stream->random ^= stream->random << 13;
        stream->random ^= stream->random >> 7;
        stream->random ^= stream->random << 17;
        nanoseconds = (int64_t)(stream->random & 0x3fff);
    }
    const int64_t until = tti_double_now() + nanoseconds;
    for (int64_t left = nanoseconds; left > 0 && !tti_double.ending; left = until - tti_double_now()) {
        tti_double_sleep(left);
    }
}

/* Waits until the operation may begin; false if the process ends. */
static bool await_earlier_operations(struct tti_double_stream *stream, const struct tti_double_op *op)
{
    while (!tti_double.ending) {
        if (tti_double.devices[stream->device].error || stream->dropped) {
            return true;
        }
        const bool is_next = !op->hangs && !held_up(stream, op->sequence - 1);
        if (is_next && (!op->ready || op->ready(op))) {
            return true;
        }
        if (is_next && op->polls) {
            tti_double_sleep(POLL_NS);
        } else {
            pthread_cond_wait(&tti_double.changed, &tti_double.lock);
        }
    }
    return false;
}

/* Does the first operation of the queue, with the lock held before and afterwards. */
static void perform(struct tti_double_stream *stream, struct tti_double_op *op)
{
    int *error = &tti_double.devices[stream->device].error;
    int code = stream->dropped ? TTI_DOUBLE_CONTEXT_IS_DESTROYED : *error ? *error : op->fails;
    if (op->run) {
        tti_double.workers -= op->calls_out;
        pthread_mutex_unlock(&tti_double.lock);
        const int result = op->run(op, code);
        pthread_mutex_lock(&tti_double.lock);
        tti_double.workers += op->calls_out;
        code = code ? code : result;
    }
    if (!*error && !stream->dropped) {
        *error = code;
    }
    stream->head = op->next;
    if (!stream->head) {
        stream->tail = &stream->head;
    }
    if (op->finish) {
        op->finish(op, code);
    }
    free(op);
    pthread_cond_broadcast(&tti_double.changed);
}

/* The last user of a stream frees it. */
static void forget(struct tti_double_stream *stream)
{
    if (!stream->closing || stream->started || stream->users > 0) {
        return;
    }
    struct tti_double_stream **link = &tti_double.streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    pthread_cond_destroy(&stream->wanted);
    free(stream);
}

static void *work(void *argument)
{
    struct tti_double_stream *stream = argument;
    pthread_mutex_lock(&tti_double.lock);
    while (!tti_double.ending) {
        struct tti_double_op *op = stream->head;
        if (op) {
            pause_before(stream);
            if (await_earlier_operations(stream, op)) {
                perform(stream, op);
            }
        } else if (stream->closing) {
            stream->started = false;
            forget(stream);
            break;
        } else {
            pthread_cond_wait(&stream->wanted, &tti_double.lock);
        }
    }
    tti_double.workers--;
    pthread_cond_broadcast(&tti_double.changed);
    pthread_mutex_unlock(&tti_double.lock);
    return NULL;
}

/* Signals are blocked in the thread, since they belong to the application; it is detached. */
static bool start(struct tti_double_stream *stream)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes)) {
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    stream->started = pthread_create(&thread, &attributes, work, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    tti_double.workers += stream->started;
    return stream->started;
}

static struct tti_double_stream *new_stream(int device, bool blocking)
{
    static uint64_t created;
    struct tti_double_stream *stream = calloc(1, sizeof(*stream));
    if (stream) {
        pthread_cond_init(&stream->wanted, NULL);
        stream->device = device;
        stream->blocking = blocking;
        stream->tail = &stream->head;
        stream->random = (tti_double_settings()->seed + ++created) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        stream->next = tti_double.streams;
        tti_double.streams = stream;
    }
    return stream;
}

static struct tti_double_stream *per_thread_stream(int device)
{
    const uint64_t thread = (uint64_t)syscall(SYS_gettid);
    for (struct tti_double_stream *s = tti_double.streams; s; s = s->next) {
        if (s->device == device && s->thread == thread && !s->closing) {
            return s;
        }
    }
    struct tti_double_stream *stream = new_stream(device, true);
    if (stream) {
        stream->thread = thread;
    }
    return stream;
}

struct tti_double_stream *tti_double_stream_find(int device, void *stream)
{
    struct tti_double_device *owner = &tti_double.devices[device];
    if ((uintptr_t)stream == PER_THREAD) {
        return per_thread_stream(device);
    }
    if (stream && (uintptr_t)stream != LEGACY) {
        return tti_double_handle_get(TTI_DOUBLE_STREAM_HANDLE, stream);
    }
    if (!owner->null_stream) {
        owner->null_stream = new_stream(device, false);
    }
    return owner->null_stream;
}

int tti_double_enqueue(const char *function, struct tti_double_stream *stream, struct tti_double_op *op)
{
    int code = tti_double.devices[stream->device].error;
    if (!code && !stream->started && !start(stream)) {
        code = TTI_DOUBLE_OUT_OF_MEMORY;
    }
    if (code) {
        if (op->finish) {
            op->finish(op, code);
        }
        free(op);
        return code;
    }
    op->hangs = tti_double_fault_for_call(TTI_DOUBLE_HANG, function);
    op->fails = tti_double_fault_for_call(TTI_DOUBLE_ASYNC, function);
    op->sequence = ++tti_double.sequence;
    op->next = NULL;
    *stream->tail = op;
    stream->tail = &op->next;
    pthread_cond_signal(&stream->wanted);
    return TTI_DOUBLE_OK;
}

int tti_double_stream_drain(struct tti_double_stream *stream, uint64_t sequence)
{
    const int *error = &tti_double.devices[stream->device].error;
    stream->users++;
    while (tti_double_stream_busy(stream, sequence) && !*error && !tti_double.ending) {
        pthread_cond_wait(&tti_double.changed, &tti_double.lock);
    }
    const int code = tti_double.ending ? TTI_DOUBLE_DEINITIALIZED : *error;
    stream->users--;
    forget(stream);
    return code;
}

int tti_double_device_drain(int device)
{
    const uint64_t sequence = tti_double.sequence;
    const int *error = &tti_double.devices[device].error;
    bool busy = true;
    while (busy && !*error && !tti_double.ending) {
        busy = false;
        for (const struct tti_double_stream *s = tti_double.streams; s && !busy; s = s->next) {
            busy = s->device == device && older(s, sequence);
        }
        if (busy) {
            pthread_cond_wait(&tti_double.changed, &tti_double.lock);
        }
    }
    return tti_double.ending ? TTI_DOUBLE_DEINITIALIZED : *error;
}

int tti_double_stream_create(int device, bool blocking, void **stream)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *created = new_stream(device, blocking);
    void *handle = created ? tti_double_handle_new(TTI_DOUBLE_STREAM_HANDLE, created) : NULL;
    if (created && !handle) {
        created->closing = true;
        forget(created);
    }
    pthread_mutex_unlock(&tti_double.lock);
    if (!handle) {
        return TTI_DOUBLE_OUT_OF_MEMORY;
    }
    *stream = handle;
    return TTI_DOUBLE_OK;
}

static void close_stream(struct tti_double_stream *stream)
{
    stream->closing = true;
    pthread_cond_signal(&stream->wanted);
    pthread_cond_broadcast(&tti_double.changed);
    forget(stream);
}

int tti_double_stream_destroy(int device, void *stream)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found =
        (uintptr_t)stream > PER_THREAD ? tti_double_handle_get(TTI_DOUBLE_STREAM_HANDLE, stream) : NULL;
    int code = found ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_HANDLE;
    if (found) {
        tti_double_handle_drop(TTI_DOUBLE_STREAM_HANDLE, stream);
        close_stream(found);
        code = tti_double.devices[device].error;
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_stream_query(int device, void *stream)
{
    pthread_mutex_lock(&tti_double.lock);
    const struct tti_double_stream *found = tti_double_stream_find(device, stream);
    int code = TTI_DOUBLE_INVALID_HANDLE;
    if (found) {
        const int error = tti_double.devices[found->device].error;
        const bool busy = tti_double_stream_busy(found, tti_double.sequence);
        code = error ? error : busy ? TTI_DOUBLE_NOT_READY : TTI_DOUBLE_OK;
    }
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_stream_synchronize(int device, void *stream)
{
    pthread_mutex_lock(&tti_double.lock);
    struct tti_double_stream *found = tti_double_stream_find(device, stream);
    const int code = found ? tti_double_stream_drain(found, tti_double.sequence) : TTI_DOUBLE_INVALID_HANDLE;
    pthread_mutex_unlock(&tti_double.lock);
    return code;
}

int tti_double_stream_info(int device, void *stream, int *owner, bool *blocking)
{
    pthread_mutex_lock(&tti_double.lock);
    const struct tti_double_stream *found = tti_double_stream_find(device, stream);
    if (found) {
        *owner = found->device;
        *blocking = found->blocking || is_default(found);
    }
    pthread_mutex_unlock(&tti_double.lock);
    return found ? TTI_DOUBLE_OK : TTI_DOUBLE_INVALID_HANDLE;
}

int tti_double_stream_device(void *stream)
{
    int code = TTI_DOUBLE_OK;
    const int device = tti_double_current(&code);
    int owner = -1;
    bool blocking = false;
    if (device < 0 || tti_double_stream_info(device, stream, &owner, &blocking)) {
        return -1;
    }
    return owner;
}

static bool is_of_device(void *stream, int device)
{
    return ((struct tti_double_stream *)stream)->device == device;
}

void tti_double_streams_close(int device)
{
    tti_double_handle_drop_all(TTI_DOUBLE_STREAM_HANDLE, device, is_of_device);
    tti_double.devices[device].null_stream = NULL;
    for (struct tti_double_stream *stream = tti_double.streams, *next = NULL; stream; stream = next) {
        next = stream->next;
        if (stream->device == device) {
            stream->dropped = true;
            close_stream(stream);
        }
    }
}
