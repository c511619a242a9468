/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanging records through the store while ranks form a group: one record of each rank. */
#ifndef TTI_CORE_GROUP_RECORDS_COLLECT_H
#define TTI_CORE_GROUP_RECORDS_COLLECT_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_group_plan;
struct tti_rendezvous;

/* Checks the record of one rank as soon as it is there, so that a mismatch is reported before ranks that are
 * missing. */
typedef tutti_status (*tti_collect_check)(const struct tti_group_plan *plan, const void *own, void *record, int rank,
                                          tutti_error *error);

/* Reads record `stem`/RANK of every rank into an array that holds the own one. TIMEOUT names the ranks without a
 * record. `error` is not NULL. */
tutti_status tti_collect_records(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous, const char *stem,
                                 void *records, size_t bytes, tti_collect_check check, tutti_error *error);

/* After a time-out: names the members for which is_missing is true, as many as a sentence holds. Returns TIMEOUT. */
tutti_status tti_collect_name_missing(const struct tti_group_plan *plan, bool (*is_missing)(void *user, int32_t member),
                                      void *user, tutti_error *error);

#endif
