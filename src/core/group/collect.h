/* SPDX-License-Identifier: BSD-3-Clause */
/* What the members of a group that is being made tell one another through the store: a record of each rank. */
#ifndef TTI_CORE_COLLECT_H
#define TTI_CORE_COLLECT_H

#include <tutti/backend.h>

struct tti_group_plan;

/* Looks at one rank's record as soon as it is there: ranks that do not fit should not wait for those that cannot come. */
typedef tutti_status (*tti_collect_check)(const struct tti_group_plan *plan, const void *own, void *record, int rank,
                                          tutti_error *error);

/* Reads record `stem`/rank of every rank into an array that holds the own one. TIMEOUT names whose records are missing.
 * `error` is not NULL. */
tutti_status tti_collect_records(const struct tti_group_plan *plan, const tutti_rendezvous *rv, const char *stem,
                                 void *records, size_t bytes, tti_collect_check check, tutti_error *error);

#endif
