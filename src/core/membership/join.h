/* SPDX-License-Identifier: BSD-3-Clause */
/* Forming groups: the world from configuration and environment, and groups out of groups. The caller has checked the
 * arguments. */
#ifndef TTI_CORE_MEMBERSHIP_JOIN_H
#define TTI_CORE_MEMBERSHIP_JOIN_H

#include "core/group/group_state.h"
#include "core/group/plan.h"

tutti_status tti_join_world(const tutti_config *config, tutti_group **group, tutti_error *error);

/* Fills the part of a sub-group's plan that does not depend on its members: the settings, and the time for forming
 * it. `operation` is CREATE or SPLIT. */
tutti_status tti_join_prepare(struct tti_group *parent, tutti_operation operation, const tutti_config *config,
                              struct tti_group_plan *plan, tutti_error *error);

/* Fills the rest, for a part of the parent's split number `serial`, and opens the group. `own` is the caller's place in
 * the list. */
tutti_status tti_join_part(struct tti_group_plan *plan, const int32_t *ranks, int32_t count, int32_t own,
                           uint32_t serial, tutti_group **group, tutti_error *error);

/* Makes a group from a list. */
tutti_status tti_join_list(struct tti_group *parent, const int32_t *ranks, int32_t count, int32_t own,
                           const tutti_config *config, tutti_group **group, tutti_error *error);

#endif
