/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing a group. */
#ifndef TTI_BACKENDS_NCCL_CLOSE_H
#define TTI_BACKENDS_NCCL_CLOSE_H

#include "backends/nccl/state.h"

/* As tutti_backend_ops.close; takes up to four seconds if other ranks do not close theirs. */
void tti_nccl_close(void *state);

#endif
