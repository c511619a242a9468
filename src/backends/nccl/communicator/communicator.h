/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane's communicator: one thread at a time acquires it, calls the library and releases it. */
#ifndef TTI_BACKENDS_NCCL_COMMUNICATOR_COMMUNICATOR_H
#define TTI_BACKENDS_NCCL_COMMUNICATOR_COMMUNICATOR_H

#include "backends/nccl/state.h"

/* Mutex and condition of a lane; the condition waits by CLOCK_MONOTONIC. */
void tti_nccl_lane_init(struct tti_nccl_lane *lane);
void tti_nccl_lane_destroy(struct tti_nccl_lane *lane);
/* As pthread_cond_timedwait; at `deadline_ns` it returns another value than 0. */
int tti_nccl_lane_wait(struct tti_nccl_lane *lane, int64_t deadline_ns);

/* The lane's communicator, which no other thread uses until it is released. If the group has failed: NULL with the
 * error. */
tti_nccl_comm tti_nccl_comm_acquire(struct tti_nccl_group *g, struct tti_nccl_lane *lane, tutti_error *error);
void tti_nccl_comm_release(struct tti_nccl_lane *lane);
/* The code that the communicator reports: SUCCESS, IN_PROGRESS, or an error. The caller has acquired it. */
int tti_nccl_comm_state(const struct tti_nccl_library *library, tti_nccl_comm comm);

#endif
