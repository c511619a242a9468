/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group whose ranks have mapped each other's segments already. Each member prepares everything, then offers a share
 * of its own segment in its directory (shares.c), and looks for the offers of the others. A member that has found all
 * of them has the group: no member can fail any more, so one round is enough. The store is not asked, no descriptor is
 * passed, no thread is started.
 *
 * The new engine uses the parent's knowledge of processes and machine. The engine of the root watches the processes: a
 * death fails every group that the process was in.
 *
 * Cost for each rank: one hop for each member, and some 2 us of allocations.
 */
#include "backends/shm/subgroup.h"

#include <stdlib.h>

#include "backends/shm/await.h"
#include "backends/shm/group.h"
#include "engine/failure/fault.h"

struct tti_subgroup {
    struct tti_shm_group *group;
    struct tti_share *share;
    struct tti_share_group key;
    bool *found; /* of each member */
    uint64_t doorbell;
};

static tutti_status commit(void *user, size_t offset, size_t bytes)
{
    const struct tti_shm_group *s = user;
    const struct tti_root *root = s->root;
    return tti_memory_commit(root->segments[root->rank].fd,
                             tti_root_segment_bytes(&root->layout) + s->share->offset + offset, bytes,
                             s->share->base + offset);
}

static void subgroup_free(struct tti_subgroup *sub)
{
    free(sub->found);
    free(sub);
}

static bool map_members(struct tti_root *root, const struct tti_shm_group *s)
{
    bool mapped = true;
    pthread_mutex_lock(&root->lock);
    for (int r = 0; r < s->size && mapped; r++) {
        mapped = tti_root_map_used(root, s->root_ranks[r]);
    }
    pthread_mutex_unlock(&root->lock);
    return mapped;
}

/* Everything but the memory of the segments. */
static bool prepare_group(const tutti_open_info *info, const int32_t *members, struct tti_shm_group *s,
                          struct tti_layout *layout)
{
    const struct tti_shm_group *parent = info->parent_state;
    struct tti_root *root = parent->root;
    tutti_error unused;
    struct tti_tuning tuning;
    tti_root_retain(root);
    s->root = root;
    if (!(s->root_ranks = calloc((size_t)s->size, sizeof(*s->root_ranks)))) {
        return false;
    }
    for (int r = 0; r < s->size; r++) {
        s->root_ranks[r] = tti_shm_root_rank(parent, members[r]);
    }
    tti_root_tuning(root, s->size, &tuning);
    *layout = tti_layout_make(s->size, info->lanes, tuning.stage, tuning.stage_far, tuning.stage_small);
    struct tti_engine_options options = {.rank = info->rank,
                                         .layout = *layout,
                                         .tuning = tuning,
                                         .commit = commit,
                                         .spin_ns = root->spin_ns,
                                         .yield_ns = root->yield_ns,
                                         .covering = root->engine,
                                         .covered_ranks = s->root_ranks};
    return map_members(root, s) &&
           (!parent->heap || tti_heap_view_open(info, parent->heap, &s->heap, &unused) == TUTTI_OK) &&
           tti_shm_engine_create(&options, s, &unused) == TUTTI_OK;
}

static void group_end(struct tti_shm_group *s)
{
    if (s->common.engine) {
        if (s->heap) {
            tti_heap_view_attach(s->heap, NULL);
        }
        tti_engine_destroy(s->common.engine);
    }
    tti_shm_group_free(s);
}

struct tti_subgroup *tti_subgroup_prepare(const tutti_open_info *info, const int32_t *members, uint64_t name,
                                          uint32_t serial)
{
    struct tti_layout layout;
    struct tti_subgroup *sub = calloc(1, sizeof(*sub));
    if (!sub) {
        return NULL;
    }
    sub->key = (struct tti_share_group){.group = name, .serial = serial, .size = info->world_size, .rank = info->rank};
    sub->found = calloc((size_t)info->world_size, sizeof(*sub->found));
    sub->group = tti_shm_group_create(info->world_size, info->rank);
    if (sub->found && sub->group && prepare_group(info, members, sub->group, &layout)) {
        sub->share = tti_share_take(sub->group->root, &layout, &sub->key);
    }
    if (!sub->share) {
        if (sub->group) {
            group_end(sub->group);
        }
        subgroup_free(sub);
        return NULL;
    }
    sub->group->share = sub->share;
    sub->group->bases[info->rank] = sub->share->base;
    sub->doorbell = sub->share->doorbell;
    sub->found[info->rank] = true;
    return sub;
}

void tti_subgroup_offer(struct tti_subgroup *sub)
{
    struct tti_root *root = sub->group->root;
    tti_share_offer(root, sub->share, &sub->key);
    tti_shm_notify(root);
}

static bool is_doorbell(const struct tti_subgroup *sub, uint64_t at)
{
    const struct tti_root *root = sub->group->root;
    const size_t bytes = tti_share_doorbell_bytes(sub->share);
    return at % TTI_LINE == 0 && at >= tti_root_rooms(root) && at <= root->doorbell.bytes &&
           bytes <= root->doorbell.bytes - at;
}

static bool accept(struct tti_subgroup *sub, int32_t member, const struct tti_share_offer *offer)
{
    struct tti_shm_group *s = sub->group;
    struct tti_root *root = s->root;
    if (offer->offset % TTI_PAGE != 0 || (member == 0 && !is_doorbell(sub, offer->doorbell))) {
        return false;
    }
    pthread_mutex_lock(&root->lock);
    s->bases[member] = tti_root_address(root, s->root_ranks[member], offer->offset, tti_share_bytes(sub->share));
    pthread_mutex_unlock(&root->lock);
    if (!s->bases[member]) {
        return false;
    }
    if (member == 0) {
        sub->doorbell = offer->doorbell;
    }
    tti_share_pair(sub->share, member, s->root_ranks[member], offer);
    sub->found[member] = true;
    return true;
}

enum tti_subgroup_found tti_subgroup_find(struct tti_subgroup *sub, int32_t member)
{
    struct tti_share_offer offer;
    if (sub->found[member]) {
        return TTI_SUBGROUP_FOUND;
    }
    if (!tti_share_find(sub->group->root, sub->group->root_ranks[member], &sub->key, member, &offer)) {
        return TTI_SUBGROUP_ABSENT;
    }
    if (offer.state == TTI_SHARE_WITHDRAWN) {
        return TTI_SUBGROUP_WITHDRAWN;
    }
    return accept(sub, member, &offer) ? TTI_SUBGROUP_FOUND : TTI_SUBGROUP_CORRUPT;
}

struct awaited {
    struct tti_subgroup *subgroup;
    int32_t member;
    enum tti_subgroup_found found;
};

static bool is_over(void *user)
{
    struct awaited *a = user;
    a->found = tti_subgroup_find(a->subgroup, a->member);
    return a->found != TTI_SUBGROUP_ABSENT;
}

enum tti_subgroup_found tti_subgroup_await(struct tti_subgroup *sub, int32_t member, int64_t until_ns)
{
    const struct tti_shm_group *s = sub->group;
    struct awaited a = {.subgroup = sub, .member = member};
    tti_shm_await(s->root, s->root_ranks[member], s->common.engine, is_over, &a, until_ns);
    return a.found;
}

void *tti_subgroup_finish(struct tti_subgroup *sub)
{
    struct tti_shm_group *s = sub->group;
    struct tti_root *root = s->root;
    tti_engine_place(s->common.engine, s->bases, root->doorbell.base + sub->doorbell, root->engine);
    subgroup_free(sub);
    return s;
}

void tti_subgroup_withdraw(struct tti_subgroup *sub, const tutti_error *cause)
{
    /* for a member that has found all offers before */
    tti_fault_decline(sub->share->base, tti_share_layout(sub->share), cause);
    tti_share_withdraw(sub->group->root, sub->share);
    tti_shm_notify(sub->group->root);
}

void tti_subgroup_end(struct tti_subgroup *sub, bool agreed)
{
    if (agreed) {
        tti_share_return(sub->group->root, sub->share);
    } else {
        tti_share_abandon(sub->share);
    }
    sub->group->share = NULL;
    group_end(sub->group);
    subgroup_free(sub);
}
