/* SPDX-License-Identifier: BSD-3-Clause */
/* Applying the rules to operations: delays, limited bandwidth, errors, drops. */
#ifndef TTI_BACKENDS_FAULT_INJECT_H
#define TTI_BACKENDS_FAULT_INJECT_H

#include "backends/fault/group.h"

/* Runs a collective with the effects of the rules. */
tutti_status tti_inject_run(struct tti_fault_group *s, tutti_op *op, tutti_error *error);

/* Applies the rules before messages are posted together. OK: the caller posts them. Else it posts none, and the status
 * of each op is written. */
tutti_status tti_inject_messages(struct tti_fault_group *s, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 tutti_error *error);

#endif
