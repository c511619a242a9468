/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending a group. */
#ifndef TTI_CORE_GROUP_GROUP_H
#define TTI_CORE_GROUP_GROUP_H

#include "core/group/plan.h"

/* Forms the group with the other members: they agree on a backend, open it, and confirm to one another that all have
 * opened it. Fails on all of them or on none. */
tutti_status tti_group_open(struct tti_group_plan *plan, tutti_group **group, tutti_error *error);

/* For the last user, which has acquired the group: ends and frees it. BUSY: there are other users, and the group is
 * released only. */
tutti_status tti_group_end(struct tti_group *group);

#endif
