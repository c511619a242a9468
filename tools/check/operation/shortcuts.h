/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that need few arguments, from start to end, in c->completion. */
#ifndef TOOLS_CHECK_OPERATION_SHORTCUTS_H
#define TOOLS_CHECK_OPERATION_SHORTCUTS_H

#include "check/check.h"

tutti_status tti_check_barrier(struct tti_check *c);
tutti_status tti_check_send(struct tti_check *c, const DLTensor *tensor, int peer, int tag);
tutti_status tti_check_recv(struct tti_check *c, DLTensor *tensor, int peer, int tag, tutti_message *came);
tutti_status tti_check_sendrecv(struct tti_check *c, const DLTensor *out, int destination, DLTensor *in, int source,
                                int tag, tutti_message *came);
/* One number each way. */
tutti_status tti_check_sendrecv_values(struct tti_check *c, int64_t *sent, int destination, int64_t *received,
                                       int source, int tag);

#endif
