/* SPDX-License-Identifier: BSD-3-Clause */
/* Ending a communicator, in a thread of its own. */
#ifndef TTI_BACKENDS_NCCL_COMMUNICATOR_TEARDOWN_H
#define TTI_BACKENDS_NCCL_COMMUNICATOR_TEARDOWN_H

#include "backends/nccl/state.h"

/* Starts to end the lane's communicator: gracefully, so that the other ranks finish, or by an abort. Does not wait. */
void tti_nccl_comm_end(struct tti_nccl_group *g, struct tti_nccl_lane *lane, bool graceful);
/* Waits for that; false if the communicator has not ended at the deadline. */
bool tti_nccl_comm_await_end(struct tti_nccl_lane *lane, int64_t deadline_ns);

#endif
