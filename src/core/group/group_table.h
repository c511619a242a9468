/* SPDX-License-Identifier: BSD-3-Clause */
/* The table from handles to groups: see handles.h. */
#ifndef TTI_CORE_GROUP_GROUP_TABLE_H
#define TTI_CORE_GROUP_GROUP_TABLE_H

#include "core/group/group_state.h"
#include "core/group/handles.h"

extern struct tti_handle_table tti_groups;

/* The group, with the caller counted as its user; or NULL and why: INVALID_ARGUMENT (NULL), BAD_STATE, FORKED. */
static inline struct tti_group *tti_group_acquire(tutti_group *handle, tutti_status *why)
{
    return tti_handles_acquire(&tti_groups, handle, why);
}

static inline void tti_group_release(struct tti_group *group)
{
    tti_handles_release(&tti_groups, group->handle);
}

#endif
