/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the engines of a group. */
#ifndef TTI_CORE_GROUP_BACKEND_OPEN_H
#define TTI_CORE_GROUP_BACKEND_OPEN_H

#include "core/group/backend/choose.h"

/* Opens the engines that were chosen: both or none. `all`: the records of the members; NULL: there are none. */
tutti_status tti_engines_open(struct tti_group *group, const struct tti_group_plan *plan,
                              const struct tti_choice *choice, const struct tti_hello *all, tutti_error *error);

#endif
