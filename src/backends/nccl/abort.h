/* SPDX-License-Identifier: BSD-3-Clause */
/* Failing a group: its communicators are aborted, and the device lets go of the tensors. */
#ifndef TTI_BACKENDS_NCCL_ABORT_H
#define TTI_BACKENDS_NCCL_ABORT_H

#include "backends/nccl/state.h"

/* Fails the group with the cause: starts to abort every lane's communicator. Does nothing if the group has failed. Does
 * not wait. */
void tti_nccl_fail(struct tti_nccl_group *g, const tutti_error *cause);
/* As tutti_backend_ops.abort. */
void tti_nccl_abort(void *state, int32_t lane, const tutti_error *cause);
/* After a call has ended with an error: fails the group, and waits up to four seconds until the device no longer uses
 * the call's memory. The caller has entered the device. */
void tti_nccl_abort_call(struct tti_nccl_call *c, tutti_status status);

#endif
