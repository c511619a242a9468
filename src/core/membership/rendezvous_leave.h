/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of making a group: see rendezvous_leave.c. */
#ifndef TTI_CORE_RENDEZVOUS_LEAVE_H
#define TTI_CORE_RENDEZVOUS_LEAVE_H

#include <stdbool.h>
#include <tutti/status.h>

struct tti_group_plan;

/* Says that this rank needs the rendezvous no more for this group (`came`: it was one of the members, of `size`), and if it serves
 * the rendezvous waits for the others to say so. `outcome` is what became of the group here. */
void tti_rendezvous_leave(const struct tti_group_plan *plan, bool came, int32_t size, tutti_status outcome);

#endif
