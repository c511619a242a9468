/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How communicators end. ncclCommAbort and ncclCommDestroy free what they are given, and may hang: in older versions, while
 * a rank of the same host does not come, or when a thread is inside. So each communicator ends in a thread of its own, and
 * whoever waits for it does so with a deadline; what has not ended by then is left to itself, with the group it belongs to.
 * A group that has not failed is finalised first (from 2.14 on), which lets the others finish what this rank takes part in;
 * when that takes too long because they do not end theirs, it is aborted, which is local.
 */
#include <stdlib.h>
#include <time.h>

#include "backends/nccl/state.h"
#include "base/clock.h"

struct ending {
    struct tti_nccl_group *group;
    struct tti_nccl_lane *lane;
    bool graceful;
    int64_t deadline_ns;
};

static struct timespec time_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Out of the reach of everybody else, as soon as nobody is in the library with it; NULL if that does not come. */
static tti_nccl_comm take(struct ending *e)
{
    struct tti_nccl_lane *lane = e->lane;
    const struct timespec until = time_of(e->deadline_ns);
    int waited = 0;
    pthread_mutex_lock(&lane->lock);
    while (lane->inside && waited == 0) {
        waited = pthread_cond_timedwait(&lane->changed, &lane->lock, &until);
    }
    const tti_nccl_comm comm = lane->inside ? NULL : lane->comm;
    lane->lost = lane->inside;
    lane->comm = comm ? NULL : lane->comm;
    pthread_mutex_unlock(&lane->lock);
    return comm;
}

/* True if the communicator is ready to be destroyed. */
static bool finalise(const struct tti_nccl_library *library, tti_nccl_comm comm, int64_t deadline_ns)
{
    struct tti_nccl_backoff backoff = {.background = true};
    int code = library->CommFinalize(comm);
    while (code == TTI_NCCL_IN_PROGRESS && tti_now_ns() < deadline_ns) {
        int state = TTI_NCCL_SUCCESS;
        const int asked = library->CommGetAsyncError(comm, &state);
        code = asked != TTI_NCCL_SUCCESS ? asked : state;
        if (code == TTI_NCCL_IN_PROGRESS) {
            tti_nccl_backoff_step(&backoff);
        }
    }
    return code == TTI_NCCL_SUCCESS;
}

static void *end(void *argument)
{
    struct ending *e = argument;
    struct tti_nccl_lane *lane = e->lane;
    const struct tti_nccl_library *library = e->group->library;
    const struct tti_device *device = e->group->device;
    struct tti_device_scope scope;
    const bool inside = device->enter(e->group->index, &scope, NULL) == TUTTI_OK;
    const tti_nccl_comm comm = take(e);
    if (comm) {
        const bool destroyed = e->graceful && (!library->CommFinalize || finalise(library, comm, e->deadline_ns));
        (destroyed ? library->CommDestroy : library->CommAbort)(comm);
    }
    if (inside) {
        device->leave(&scope);
    }
    pthread_mutex_lock(&lane->lock);
    lane->ending = false;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    free(e);
    return NULL;
}

void tti_nccl_comm_end(struct tti_nccl_group *g, struct tti_nccl_lane *lane, bool graceful)
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct ending *e = malloc(sizeof(*e));
    pthread_mutex_lock(&lane->lock);
    pthread_cond_broadcast(&lane->changed); /* who waits for its turn sees that the group has failed */
    const bool begins = lane->comm && !lane->ending;
    lane->ending = begins || lane->ending;
    pthread_mutex_unlock(&lane->lock);
    if (!begins) {
        free(e);
        return;
    }
    bool started = false;
    if (e && pthread_attr_init(&attributes) == 0) {
        *e = (struct ending){g, lane, graceful, tti_now_ns() + TTI_NCCL_TEARDOWN_NS};
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        started = pthread_create(&thread, &attributes, end, e) == 0;
        pthread_attr_destroy(&attributes);
    }
    if (!started) { /* nobody can be trusted with it: it stays, out of reach */
        free(e);
        pthread_mutex_lock(&lane->lock);
        lane->lost = true;
        lane->ending = false;
        pthread_cond_broadcast(&lane->changed);
        pthread_mutex_unlock(&lane->lock);
    }
}

bool tti_nccl_comm_await_end(struct tti_nccl_lane *lane, int64_t deadline_ns)
{
    const struct timespec until = time_of(deadline_ns);
    int waited = 0;
    pthread_mutex_lock(&lane->lock);
    while (lane->ending && waited == 0) {
        waited = pthread_cond_timedwait(&lane->changed, &lane->lock, &until);
    }
    const bool ended = !lane->ending && !lane->lost;
    pthread_mutex_unlock(&lane->lock);
    return ended;
}

/* The library may still use any memory of such a group: it stays, where leak checkers find it. */
static void keep_leaked(struct tti_nccl_group *g)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct tti_nccl_group *leaked_groups;
    pthread_mutex_lock(&lock);
    g->next_leaked = leaked_groups;
    leaked_groups = g;
    pthread_mutex_unlock(&lock);
}

static void free_lane(struct tti_nccl_group *g, struct tti_nccl_lane *lane, bool inside)
{
    const struct tti_device *device = g->device;
    if (inside && !lane->held) {
        if (lane->event) {
            device->event_destroy(lane->event, NULL);
        }
        if (lane->stream) {
            device->stream_destroy(lane->stream, NULL);
        }
        if (lane->word) {
            device->free(lane->word, NULL);
        }
        if (lane->scratch) {
            device->free(lane->scratch, NULL);
        }
        for (int32_t i = 0; i < lane->outgrown_count; i++) {
            device->free(lane->outgrown[i], NULL);
        }
    }
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}

void tti_nccl_close(void *state)
{
    struct tti_nccl_group *g = state;
    struct tti_device_scope scope;
    const bool failed = atomic_load_explicit(&g->failed, memory_order_acquire) != TUTTI_OK;
    const bool inside = g->device->enter(g->index, &scope, NULL) == TUTTI_OK;
    bool ended = true;
    tti_nccl_heap_leave(g);
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_nccl_comm_end(g, &g->lane[i], !failed);
    }
    const int64_t deadline_ns = tti_now_ns() + 2 * TTI_NCCL_TEARDOWN_NS; /* to finalise, and to abort */
    for (int32_t i = 0; i < g->lanes; i++) {
        ended = tti_nccl_comm_await_end(&g->lane[i], deadline_ns) && ended;
    }
    if (!ended) {
        keep_leaked(g);
    } else {
        for (int32_t i = 0; i < g->lanes; i++) {
            free_lane(g, &g->lane[i], inside);
        }
        tti_nccl_heap_close(g->heap);
        pthread_mutex_destroy(&g->lock);
    }
    if (inside) {
        g->device->leave(&scope);
    }
    if (ended) {
        free(g);
    }
}
