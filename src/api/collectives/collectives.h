/* SPDX-License-Identifier: BSD-3-Clause */
/* What other files use of the collectives with equal parts: names and checks by kind, and all_gather for Tutti's own
 * data. */
#ifndef TTI_API_COLLECTIVES_COLLECTIVES_H
#define TTI_API_COLLECTIVES_COLLECTIVES_H

#include "api/check.h"
#include "core/call/cache/signature.h"

/* The name of a collective with equal parts ("all_reduce"); NULL for another kind. */
const char *tti_collective_name(tutti_operation kind);

/* Checks the arguments, and fills k->task. The call has begun. */
tutti_status tti_collective_describe(const struct tti_checker *k, const struct tti_signature *s);

/* tutti_all_gather for Tutti's own data: in host memory, on the group's engine for it, for groups on any device. The
 * deadline counts from begun_ns on. */
tutti_status tti_all_gather_on_host(tutti_group *group, const DLTensor *input, DLTensor *output, int64_t begun_ns,
                                    const tutti_call *call);

#endif
