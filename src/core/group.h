/* SPDX-License-Identifier: BSD-3-Clause */
/* A group as one rank sees it, and the table that turns handles into groups. */
#ifndef TTI_CORE_GROUP_H
#define TTI_CORE_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "core/events.h"
#include "core/handles.h"
#include "core/lane.h"
#include "core/messages.h"
#include "core/rendezvous.h"
#include "core/settings.h"

/* How often a list of ranks has been made into a group: part of the new group's name at the rendezvous. */
struct tti_list_count {
    struct tti_list_count *next;
    uint64_t hash;
    uint32_t count;
};

struct tti_group {
    tutti_group *handle;
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int64_t timeout_ms;
    DLDevice device;
    int32_t *global_ranks; /* size entries: ranks in the world */
    const tutti_backend *backend;
    void *state;
    struct tti_pool *pool; /* memory of tutti_alloc, if the backend has no heap */
    struct tti_settings settings;
    struct tti_rendezvous rendezvous; /* private keys of this group; keeps the store */
    struct tti_lane_queue lane_queues[TUTTI_MAX_LANES];
    struct tti_messages messages;
    pthread_mutex_t callback_lock; /* callbacks of a group run one at a time */
    struct tti_events_list events;
    pthread_mutex_t names_lock; /* the counters below */
    struct tti_list_count *lists;
    uint32_t splits;
};

/* Everything that two ways of making a group differ in. */
struct tti_group_plan {
    int32_t rank;
    int32_t size;
    const int32_t *global_ranks; /* NULL: 0, 1, 2, ... */
    tutti_operation operation;   /* INIT, CREATE or SPLIT, for messages */
    struct tti_group *parent;    /* NULL for INIT */
    void *native_communicator;
    struct tti_settings settings;
    struct tti_store *store;
    char name[64]; /* unique among the groups of the store */
};

/* Meets the other members, agrees on a backend, opens it, makes sure that all have; or fails on all of them. */
tutti_status tti_group_open(const struct tti_group_plan *plan, tutti_group **group, tutti_error *error);

/* The table of groups; see handles.h. */
extern struct tti_handle_table tti_groups;

static inline struct tti_group *tti_group_acquire(tutti_group *handle, tutti_status *why)
{
    return tti_handles_acquire(&tti_groups, handle, why);
}

static inline void tti_group_release(struct tti_group *group)
{
    tti_handles_release(&tti_groups, group->handle);
}

/* Frees a group that was retired, or never inserted. */
void tti_group_free(struct tti_group *group);

/* What the group promises: TUTTI_CAP_* bits. */
uint32_t tti_group_capabilities(const struct tti_group *group);

/* Nothing is pending and nobody can begin anything: ends the threads that served the group. */
void tti_group_quiesce(struct tti_group *group);

#endif
