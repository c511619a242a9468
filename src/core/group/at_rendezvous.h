/* SPDX-License-Identifier: BSD-3-Clause */
/* Forming a group at the rendezvous. */
#ifndef TTI_CORE_GROUP_AT_RENDEZVOUS_H
#define TTI_CORE_GROUP_AT_RENDEZVOUS_H

#include "core/group/plan.h"

/* Forms the group with the other members, and leaves the rendezvous when they have the outcome. */
tutti_status tti_at_rendezvous_form(struct tti_group *group, struct tti_group_plan *plan, tutti_error *error);

/* For a rank that cannot begin to form the group: reports `why` to the others. `error` is complete. */
void tti_group_decline(struct tti_group_plan *plan, tutti_status why, const tutti_error *error);

#endif
