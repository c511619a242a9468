/* SPDX-License-Identifier: BSD-3-Clause */
/* Revoke, abort, agree and shrink: recovery without lost ranks. The caller has acquired the group and checked the
 * arguments. */
#ifndef TTI_CORE_MEMBERSHIP_RECOVER_H
#define TTI_CORE_MEMBERSHIP_RECOVER_H

#include "core/group/group_state.h"

/* Whether the group's engine can do it: UNSUPPORTED otherwise. */
tutti_status tti_recover_check(const struct tti_group *group, const char *function, tutti_error *error);

/* Fails the group on all ranks. */
void tti_recover_revoke(struct tti_group *group);

/* Ends the waits of this rank in the group. UNSUPPORTED if its engine cannot. */
tutti_status tti_recover_abort(struct tti_group *group, tutti_error *error);

/* Words of a set of ranks. */
static inline size_t tti_recover_words(const struct tti_group *group)
{
    return ((size_t)group->size + 63) / 64;
}

/* Ranks that have died or left, as far as this rank knows. `ranks` has tti_recover_words words, here and below. */
void tti_recover_lost(struct tti_group *group, uint64_t *ranks);

tutti_status tti_recover_agree(struct tti_group *group, uint64_t *flags, uint64_t *failed, int64_t timeout_ms,
                               tutti_error *error);

tutti_status tti_recover_shrink(struct tti_group *group, int64_t timeout_ms, tutti_group **survivors,
                                tutti_error *error);

#endif
