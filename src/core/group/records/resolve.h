/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of a group, and the record of a rank: what it is and its settings. */
#ifndef TTI_CORE_GROUP_RECORDS_RESOLVE_H
#define TTI_CORE_GROUP_RECORDS_RESOLVE_H

#include <stdbool.h>

#include "core/group/plan.h"
#include "core/group/records/hello.h"

/* The devices of this rank, from the settings. NOT_AVAILABLE if one is not there. */
tutti_status tti_resolve_devices(struct tti_group_plan *plan, tutti_error *error);

/* Fills this rank's record. `status` and `error` (not NULL): a failure so far. Returns whether this rank can take part,
 * which is in the record, too. */
tutti_status tti_hello_fill(const struct tti_group_plan *plan, tutti_status status, struct tti_hello *h,
                            tutti_error *error);

/* Checks the record of rank `r`: OK if it fits the own one. */
tutti_status tti_hello_check(const struct tti_group_plan *plan, const struct tti_hello *own, struct tti_hello *h, int r,
                             tutti_error *error);

/* Probes all backends that were left out of the record of this rank; puts the results into the record of any rank. */
void tti_hello_probe_backends(const struct tti_hello *h, struct tti_backend_answer *answer);
void tti_hello_merge(struct tti_hello *h, const struct tti_backend_answer *answer);
/* Checks the results of rank `r`: OK if it could probe all of them. */
tutti_status tti_backend_answer_check(struct tti_backend_answer *answer, int r, tutti_error *error);

/* Whether it takes no host memory. */
bool tti_resolve_needs_device(const tutti_backend *backend);

/* The capability of a backend that takes memory of such a device as it is; 0 for the CPU. */
uint32_t tti_resolve_capability(DLDeviceType type);

#endif
