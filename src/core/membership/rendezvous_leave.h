/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of forming a group: see rendezvous_leave.c. */
#ifndef TTI_CORE_MEMBERSHIP_RENDEZVOUS_LEAVE_H
#define TTI_CORE_MEMBERSHIP_RENDEZVOUS_LEAVE_H

#include <stdbool.h>
#include <tutti/status.h>

struct tti_group_plan;
struct tti_rendezvous;

/* Records that this rank no longer needs the rendezvous for this group (`is_member`: it is one of the `size` members).
 * If it serves the rendezvous, it waits for the records of the others. If members expect different sizes, `size` is the
 * largest of them, and may exceed plan->size. `outcome` is the status of the group here. */
void tti_rendezvous_leave(const struct tti_group_plan *plan, bool is_member, int32_t size, tutti_status outcome);

/* A rank destroys a group that all have had. The last one removes the group's keys, where a store can do so at once;
 * in a store that lasts, the rank records that it has left. */
void tti_rendezvous_forget(struct tti_rendezvous *rendezvous, int32_t rank, int32_t size);

#endif
