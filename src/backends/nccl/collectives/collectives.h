/* SPDX-License-Identifier: BSD-3-Clause */
/* One function of the library, or several, for each kind of collective. */
#ifndef TTI_BACKENDS_NCCL_COLLECTIVES_COLLECTIVES_H
#define TTI_BACKENDS_NCCL_COLLECTIVES_COLLECTIVES_H

#include "backends/nccl/state.h"

/* Queues the operation on the lane's stream, and waits until it is launched. */
tutti_status tti_nccl_queue(struct tti_nccl_call *c);

#endif
