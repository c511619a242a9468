/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How communicators end. ncclCommAbort and ncclCommDestroy free the communicator and may hang: in older versions while
 * a rank of the same host is missing, or while a thread uses the communicator. So each communicator ends in a thread of
 * its own, and the caller waits with a deadline. A communicator that has not ended by then is left behind, with its
 * group.
 *
 * A group that has not failed is finalised first (from 2.14 on), so that the other ranks finish their part. If the
 * other ranks do not finalise in time, the communicator is aborted, which is local.
 */
#include "backends/nccl/communicator/teardown.h"

#include <stdlib.h>

#include "backends/nccl/communicator/backoff.h"
#include "backends/nccl/communicator/communicator.h"
#include "base/clock.h"

struct ending {
    struct tti_nccl_group *group;
    struct tti_nccl_lane *lane;
    bool graceful;
    int64_t deadline_ns;
};

/* Takes the communicator away from all other threads once none of them uses it; NULL at the deadline. */
static tti_nccl_comm take(struct ending *e)
{
    struct tti_nccl_lane *lane = e->lane;
    int waited = 0;
    pthread_mutex_lock(&lane->lock);
    while (lane->acquired && waited == 0) {
        waited = tti_nccl_lane_wait(lane, e->deadline_ns);
    }
    const tti_nccl_comm comm = lane->acquired ? NULL : lane->comm;
    lane->lost = lane->acquired;
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
        code = tti_nccl_comm_state(library, comm);
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
    const bool entered = device->enter(e->group->index, &scope, NULL) == TUTTI_OK;
    const tti_nccl_comm comm = take(e);
    if (comm) {
        const bool destroyed = e->graceful && (!library->CommFinalize || finalise(library, comm, e->deadline_ns));
        (destroyed ? library->CommDestroy : library->CommAbort)(comm);
    }
    if (entered) {
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
    pthread_cond_broadcast(&lane->changed); /* a thread in tti_nccl_comm_acquire sees that the group has failed */
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
    if (!started) { /* this thread must not end it, since it could hang here: the communicator is left behind */
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
    int waited = 0;
    pthread_mutex_lock(&lane->lock);
    while (lane->ending && waited == 0) {
        waited = tti_nccl_lane_wait(lane, deadline_ns);
    }
    const bool ended = !lane->ending && !lane->lost;
    pthread_mutex_unlock(&lane->lock);
    return ended;
}
