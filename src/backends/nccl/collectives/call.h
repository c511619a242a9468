/* SPDX-License-Identifier: BSD-3-Clause */
/* What all collectives share: waiting until the library has launched the work and until it has ended, scratch
 * memory. */
#ifndef TTI_BACKENDS_NCCL_COLLECTIVES_CALL_H
#define TTI_BACKENDS_NCCL_COLLECTIVES_CALL_H

#include "backends/nccl/state.h"

/* After `what` ("AllReduce") has returned `code`: releases the lane's communicator, then waits until the work is
 * launched. */
tutti_status tti_nccl_await_launch(struct tti_nccl_call *c, tti_nccl_comm comm, int code, const char *what);
/* Waits until all work on the lane's stream has ended and the communicator has reported no error. */
tutti_status tti_nccl_await_stream(struct tti_nccl_call *c);
/* At least `bytes` of the lane's scratch memory, on the device; NULL with the error. */
unsigned char *tti_nccl_scratch(struct tti_nccl_call *c, size_t bytes);

#endif
