/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups that share the segments of the group they are made from: see subgroup.c. The core drives the steps, and polls
 * for failures meanwhile:
 *
 *   tti_subgroup_prepare      all that can fail
 *   tti_subgroup_offer        the other members can find this rank's share
 *   tti_subgroup_await        until a member's share is found; once for each member
 *   tti_subgroup_finish       the group is there
 *   tti_subgroup_withdraw     instead: the group is not formed in this way
 *   tti_subgroup_end
 */
#ifndef TTI_BACKENDS_SHM_SUBGROUP_H
#define TTI_BACKENDS_SHM_SUBGROUP_H

#include <stdbool.h>
#include <tutti/backend.h>

struct tti_subgroup;

/* `members`: the ranks of the group info->parent_state, by their new numbers. `name` and `serial`: the same on all
 * members, and of no other group. NULL: the group has to be made without its parent. */
struct tti_subgroup *tti_subgroup_prepare(const tutti_open_info *info, const int32_t *members, uint64_t name,
                                          uint32_t serial);

void tti_subgroup_offer(struct tti_subgroup *subgroup);

enum tti_subgroup_found {
    TTI_SUBGROUP_ABSENT,
    TTI_SUBGROUP_FOUND,
    TTI_SUBGROUP_WITHDRAWN, /* the member has aborted, or makes the group without its parent */
    TTI_SUBGROUP_CORRUPT    /* what it offers is impossible */
};

/* Whether the member has made its offer. It may have left since. */
enum tti_subgroup_found tti_subgroup_find(struct tti_subgroup *subgroup, int32_t member);

/* The same, and waits for it until then: spins, yields, sleeps. */
enum tti_subgroup_found tti_subgroup_await(struct tti_subgroup *subgroup, int32_t member, int64_t until_ns);

/* All members were found. The result is a state of the backend, and `subgroup` is freed. */
void *tti_subgroup_finish(struct tti_subgroup *subgroup);

/* Takes the offer back. Members that look for it see that; members that have the group get the cause in it, if there is
 * one. */
void tti_subgroup_withdraw(struct tti_subgroup *subgroup, const tutti_error *cause);

/* After withdraw: frees `subgroup`. `agreed`: all members have taken their offers back, so the memory can be used
 * again. */
void tti_subgroup_end(struct tti_subgroup *subgroup, bool agreed);

#endif
