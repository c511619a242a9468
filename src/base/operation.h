/* SPDX-License-Identifier: BSD-3-Clause */
/* What several folders ask of an operation. */
#ifndef TTI_BASE_OPERATION_H
#define TTI_BASE_OPERATION_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "base/clock.h"

/* Whether the call of the operation names a root. */
static inline bool tti_operation_is_rooted(tutti_operation kind)
{
    return kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER;
}

/* When the operation must have ended. It begins now, unless it has begun. */
static inline int64_t tti_operation_deadline_ns(tutti_op *op)
{
    op->begun_ns = op->begun_ns != 0 ? op->begun_ns : tti_now_ns();
    return tti_deadline_ns(op->begun_ns, op->timeout_ms);
}

#endif
