/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting until a message can be received. To a backend a probe is a receive with an `allocate` that refuses the
 * message: the engine waits for it as for any receive, and the message stays. The deadline of a probe is checked here,
 * not by the backend: no other rank takes part, so the group does not fail with it.
 */
#ifndef TTI_CORE_MESSAGES_PROBE_H
#define TTI_CORE_MESSAGES_PROBE_H

#include <stdbool.h>

#include "core/messages/transfer.h"

/* A tutti_op.allocate; op->allocate_user is the transfer. */
tutti_status tti_probe_refuse(tutti_op *op, const tutti_message *message, int32_t ndim, const int64_t *shape);

/* Ends a probe after its receive has ended with `status`: writes the caller's message, or the sentence of a TIMEOUT if
 * the receive was withdrawn because it was `late`. */
tutti_status tti_probe_conclude(struct tti_call *c, struct tti_transfer *t, tutti_status status, bool late);

/* A synchronous probe from start to end. */
tutti_status tti_probe_run(struct tti_call *c, struct tti_transfer *t);

#endif
