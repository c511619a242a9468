/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups from a split: see split.c. The caller has checked the arguments. */
#ifndef TTI_CORE_MEMBERSHIP_SPLIT_H
#define TTI_CORE_MEMBERSHIP_SPLIT_H

#include "core/group/group_state.h"

tutti_status tti_join_split(struct tti_group *parent, int32_t color, int32_t key, const tutti_config *config,
                            tutti_group **group, tutti_error *error);

#endif
