/* SPDX-License-Identifier: BSD-3-Clause */
/* Forming groups: the world from configuration and environment, and groups out of groups. The caller has checked the
 * arguments. */
#ifndef TTI_CORE_JOIN_H
#define TTI_CORE_JOIN_H

#include "core/group/group_state.h"

tutti_status tti_join_world(const tutti_config *config, tutti_group **group, tutti_error *error);

/* `own` is the caller's place in the list. */
tutti_status tti_join_list(struct tti_group *parent, const int32_t *ranks, int32_t count, int32_t own,
                           const tutti_config *config, tutti_group **group, tutti_error *error);

#endif
