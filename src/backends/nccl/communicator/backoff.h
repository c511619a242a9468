/* SPDX-License-Identifier: BSD-3-Clause */
/* One step of a polling loop: spins, then yields, then sleeps 50 us a step. */
#ifndef TTI_BACKENDS_NCCL_COMMUNICATOR_BACKOFF_H
#define TTI_BACKENDS_NCCL_COMMUNICATOR_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct tti_nccl_backoff {
    uint32_t polls;
    bool background; /* sleeps earlier: no caller waits for this result */
};

/* True now and then: the caller also reads the clock and the state of the group. */
bool tti_nccl_backoff_step(struct tti_nccl_backoff *backoff);

#endif
