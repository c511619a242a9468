/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the tensors of a group lie, and the record in which a rank says what it is and wants. */
#ifndef TTI_CORE_RESOLVE_H
#define TTI_CORE_RESOLVE_H

#include <stdbool.h>

#include "core/group/hello.h"
#include "core/group/plan.h"

/* The devices of this rank, from the settings. NOT_AVAILABLE if one is not there. */
tutti_status tti_resolve_devices(struct tti_group_plan *plan, tutti_error *error);

/* Fills this rank's record; `status` and `error` (not NULL) say what has gone wrong here so far, and afterwards whether this
 * rank can take part, which the others read, too. */
tutti_status tti_hello_fill(const struct tti_group_plan *plan, tutti_status status, struct tti_hello *h,
                            tutti_error *error);

/* Looks at the record of rank `r`: OK if it fits the own one. */
tutti_status tti_hello_check(const struct tti_group_plan *plan, const struct tti_hello *own, struct tti_hello *h, int r,
                             tutti_error *error);

/* Asks all backends that were left out of a record of this rank; and what comes of that for a record of any rank. */
void tti_hello_probe_backends(const struct tti_hello *h, struct tti_backend_answer *answer);
void tti_hello_merge(struct tti_hello *h, const struct tti_backend_answer *answer);
/* Looks at the answer of rank `r`: OK if that has found out all it was to. */
tutti_status tti_backend_answer_check(struct tti_backend_answer *answer, int r, tutti_error *error);

/* Whether it takes no host memory. */
bool tti_resolve_needs_device(const tutti_backend *backend);

/* The capability that says that a backend takes memory of such a device as it is; 0 for the CPU's. */
uint32_t tti_resolve_capability(DLDeviceType type);

#endif
