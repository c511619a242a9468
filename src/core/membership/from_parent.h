/* SPDX-License-Identifier: BSD-3-Clause */
/* Forming a group in the memory that its ranks share already, as members of its parent: see from_parent.c. */
#ifndef TTI_CORE_MEMBERSHIP_FROM_PARENT_H
#define TTI_CORE_MEMBERSHIP_FROM_PARENT_H

#include <stdbool.h>

#include "core/group/plan.h"

struct tti_subgroup;

/* True: the group is there, or has failed on all members; *status says which. False: all members go to the rendezvous.
 * Then *declined, which may be NULL, goes to tti_from_parent_end when the rendezvous is over. */
bool tti_from_parent_form(struct tti_group *group, struct tti_group_plan *plan, struct tti_subgroup **declined,
                          tutti_status *status, tutti_error *error);

void tti_from_parent_end(struct tti_subgroup *declined, bool formed);

#endif
