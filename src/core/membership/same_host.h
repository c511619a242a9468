/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks of a group can share memory, and why others cannot: see same_host.c. */
#ifndef TTI_CORE_MEMBERSHIP_SAME_HOST_H
#define TTI_CORE_MEMBERSHIP_SAME_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/status.h>

struct tti_group_plan;
struct tti_kept_pidfds;
struct tti_hello;
struct tti_rendezvous;
struct tti_site;

/* Of this process. NO_RESOURCE or NO_MEMORY if it cannot be found now: without it the others would take this rank for
 * one of another host. */
tutti_status tti_site_find(const char *directory, struct tti_site *site, tutti_error *error);

/*
 * Fills in `machine` (the same number for ranks that can share memory) and `host` (that and TUTTI_HOST_ID) of all
 * records, on all ranks alike. If the records do not prove it, the ranks run a trial: then all take part in one more
 * round at the rendezvous.
 */
tutti_status tti_same_host_find(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                                struct tti_hello *all, struct tti_kept_pidfds *kept, tutti_error *error);

/* Once the group is made: what this rank has offered to the others is not needed any more. */
void tti_same_host_withdraw(const struct tti_group_plan *plan, struct tti_rendezvous *rendezvous,
                            struct tti_kept_pidfds *kept);

/* Releases the pidfds of a group. */
void tti_same_host_release(struct tti_kept_pidfds *kept);

/* Whether two ranks have one kernel, as far as the records and the trial say. */
bool tti_same_host_share_kernel(const struct tti_hello *a, const struct tti_hello *b);

/* Whether the process that has left this record in a store has ended, as far as this host can see it. */
bool tti_same_host_has_ended(const struct tti_hello *record);

/* Why rank `b` is not on the host of rank `a`, in one sentence. */
void tti_same_host_reason(const struct tti_hello *all, int32_t a, int32_t b, char *text, size_t capacity);

/* The leaders two ranks that have one kernel and one TUTTI_HOST_ID, and yet cannot share memory. False:
 * there are none. */
bool tti_same_host_find_parted(const struct tti_hello *all, int32_t size, int32_t *a, int32_t *b);

#endif
