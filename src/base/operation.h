/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of operations that several folders ask for. */
#ifndef TTI_BASE_OPERATION_H
#define TTI_BASE_OPERATION_H

#include <stdbool.h>
#include <tutti/status.h>

/* Whether the call of the operation names a root. */
static inline bool tti_operation_is_rooted(tutti_operation kind)
{
    return kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER;
}

#endif
