/* SPDX-License-Identifier: BSD-3-Clause */
/* Making the communicators of a group. */
#ifndef TTI_BACKENDS_NCCL_COMMUNICATOR_CONNECT_H
#define TTI_BACKENDS_NCCL_COMMUNICATOR_CONNECT_H

#include "backends/nccl/state.h"

/* Makes a communicator for each lane from rank 0's ids. Collective. After an error, the communicators made so far stay
 * in the group's lanes. */
tutti_status tti_nccl_connect(struct tti_nccl_group *g, const tutti_open_info *info, const tti_nccl_id *ids,
                              int64_t deadline_ns, tutti_error *error);

#endif
