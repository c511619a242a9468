/* SPDX-License-Identifier: BSD-3-Clause */
/* New ranks join a group. The caller has acquired the groups and checked the arguments. */
#ifndef TTI_CORE_MEMBERSHIP_GROW_H
#define TTI_CORE_MEMBERSHIP_GROW_H

#include "core/group/group_state.h"

/* UNSUPPORTED if the group's engine cannot take new ranks. */
tutti_status tti_grow_check(const struct tti_group *group, const char *function, tutti_error *error);

tutti_status tti_grow_token(const struct tti_group *group, char *token, size_t capacity, tutti_error *error);

tutti_status tti_grow(struct tti_group *group, const char *token, int32_t newcomers, int64_t timeout_ms,
                      tutti_group **grown, tutti_error *error);

tutti_status tti_grow_join(const char *token, const tutti_config *config, tutti_group **grown, tutti_error *error);

#endif
