/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exclusive use of a communicator. The lane's thread is nearly always alone; tutti_register acquires the communicator
 * for a moment. A rank that fails the group takes the communicator away under the lane's lock (teardown.c), so acquire
 * checks the group's state under that lock.
 */
#include "backends/nccl/communicator/communicator.h"

#include <time.h>

#include "backends/nccl/failure.h"

void tti_nccl_lane_init(struct tti_nccl_lane *lane)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, &clock);
    pthread_condattr_destroy(&clock);
}

void tti_nccl_lane_destroy(struct tti_nccl_lane *lane)
{
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}

int tti_nccl_lane_wait(struct tti_nccl_lane *lane, int64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    return pthread_cond_timedwait(&lane->changed, &lane->lock, &until);
}

tti_nccl_comm tti_nccl_comm_acquire(struct tti_nccl_group *g, struct tti_nccl_lane *lane, tutti_error *error)
{
    pthread_mutex_lock(&lane->lock);
    while (lane->acquired && !tti_nccl_has_failed(g)) {
        pthread_cond_wait(&lane->changed, &lane->lock);
    }
    const tti_nccl_comm comm = tti_nccl_has_failed(g) ? NULL : lane->comm;
    lane->acquired = lane->acquired || comm;
    pthread_mutex_unlock(&lane->lock);
    if (!comm) {
        tti_nccl_check(g, error);
    }
    return comm;
}

void tti_nccl_comm_release(struct tti_nccl_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->acquired = false;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

int tti_nccl_comm_state(const struct tti_nccl_library *library, tti_nccl_comm comm)
{
    int state = TTI_NCCL_SUCCESS;
    const int code = library->CommGetAsyncError(comm, &state);
    return code == TTI_NCCL_SUCCESS ? state : code;
}
