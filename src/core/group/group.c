/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group from its allocation to its end. One whose ranks share memory already, as members of its parent, is formed
 * there (from_parent.c). Others are formed at the rendezvous (at_rendezvous.c).
 */
#include "core/group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "core/async/deferred_ends.h"
#include "core/async/events.h"
#include "core/call/compare.h"
#include "core/call/lane.h"
#include "core/group/at_rendezvous.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "core/membership/formation_watch.h"
#include "core/membership/from_parent.h"
#include "core/membership/rendezvous_leave.h"
#include "core/membership/same_host.h"
#include "core/membership/wait_registry.h"
#include "core/memory/pool.h"
#include "core/memory/staging.h"
#include "core/messages/messages.h"

static tutti_status prepare(const struct tti_group_plan *plan, struct tti_group **group, tutti_error *error)
{
    struct tti_group *g = calloc(1, sizeof(*g));
    struct tti_pool *pool = plan->parent ? tti_pool_retain(plan->parent->pool) : tti_pool_create();
    if (!g || !pool || !(g->global_ranks = calloc((size_t)plan->size, sizeof(*g->global_ranks)))) {
        tti_pool_release(pool);
        free(g);
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", plan->size);
    }
    /* Before this rank joins: if the table is full, the rank declines, and no member gets the group. */
    const tutti_status status = tti_handles_reserve(&tti_groups, g, (void **)&g->handle, error);
    if (status != TUTTI_OK) {
        tti_pool_release(pool);
        free(g->global_ranks);
        free(g);
        return status;
    }
    g->rank = plan->rank;
    g->size = plan->size;
    g->settings = tti_settings_retain(plan->settings);
    g->lanes = (int32_t)tti_setting_number(plan->settings, TTI_SET_LANES);
    g->timeout_ms = tti_setting_number(g->settings, TTI_SET_TIMEOUT_MS);
    g->device = (DLDevice){kDLCPU, 0};
    g->device_ops = &tti_device_host;
    g->local_rank = plan->local_rank;
    memcpy(g->name_suffix, plan->parent ? plan->parent->name_suffix : plan->name_suffix, sizeof(g->name_suffix));
    g->served_by = plan->parent && plan->parent->rendezvous.store == plan->store ? plan->parent->served_by : -1;
    for (int r = 0; r < plan->size; r++) {
        g->global_ranks[r] = plan->parent ? plan->parent->global_ranks[plan->watch.ranks[r]] : r;
    }
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_lane_queue_init(&g->lane_queues[i], g, i);
    }
    tti_messages_init(&g->messages, g);
    tti_deferred_ends_init(&g->deferred_ends);
    pthread_mutex_init(&g->callback_lock, NULL);
    tti_events_list_init(&g->events);
    pthread_mutex_init(&g->names_lock, NULL);
    tti_rendezvous_open(&g->rendezvous, plan->store, plan->name);
    g->pool = pool;
    *group = g;
    return TUTTI_OK;
}

/* Ends the threads that served the group. Nothing is pending and no thread can begin anything. */
static void quiesce(struct tti_group *g)
{
    for (int32_t i = 0; i < g->lanes; i++) {
        tti_lane_queue_close(&g->lane_queues[i]);
    }
    tti_messages_close(&g->messages);
    tti_deferred_ends_close(&g->deferred_ends);
}

/* Frees a group that was retired, or never inserted. */
static void free_group(struct tti_group *g)
{
    tti_flight_leave(g->flight);
    while (g->lists) {
        struct tti_list_count *next = g->lists->next;
        free(g->lists);
        g->lists = next;
    }
    tti_staging_free(g->staging);
    for (int32_t i = 0; i < g->lanes; i++) {
        free(g->wire_memory[i]);
    }
    tti_comparison_close(g->comparison);
    tti_wait_registry_close(g->wait_registry);
    if (atomic_load_explicit(&g->in_use, memory_order_relaxed)) {
        tti_pool_keep(g->pool);
    }
    tti_pool_release(g->pool);
    tti_rendezvous_close(&g->host_rendezvous);
    tti_rendezvous_close(&g->rendezvous);
    tti_events_list_free(&g->events);
    pthread_mutex_destroy(&g->callback_lock);
    pthread_mutex_destroy(&g->names_lock);
    free(g->host_names);
    free(g->shm_unused_reason);
    tti_same_host_release(&g->pidfds);
    free(g->recovery.out);
    tti_settings_release(g->settings);
    free(g->global_ranks);
    free(g);
}

tutti_status tti_group_end(struct tti_group *g)
{
    tutti_status status = tti_handles_retire(&tti_groups, g->handle);
    if (status != TUTTI_OK) {
        tti_group_release(g);
        return status;
    }
    quiesce(g);
    tti_group_close(g);
    tti_wait_registry_close(g->wait_registry); /* before its keys go: its thread may put notes */
    g->wait_registry = NULL;
    tti_rendezvous_forget(&g->rendezvous, g->rank, g->size);
    free_group(g);
    return TUTTI_OK;
}

static void record(struct tti_group *g, const struct tti_group_plan *plan)
{
    const char *mode = tti_setting(plan->settings, TTI_SET_FLIGHT);
    char name[sizeof(plan->name) + sizeof(g->name_suffix)];
    snprintf(name, sizeof(name), "%s%s", plan->name, g->name_suffix);
    const struct tti_flight_member member = {.name = name,
                                             .rank = g->rank,
                                             .size = g->size,
                                             .world_rank = g->global_ranks[g->rank],
                                             .lanes = g->lanes,
                                             .opened_by = plan->operation,
                                             .is_world = plan->parent == NULL};
    g->flight = tti_flight_join(&member, strcmp(mode, "off") == 0    ? TTI_FLIGHT_OFF
                                         : strcmp(mode, "full") == 0 ? TTI_FLIGHT_FULL
                                                                     : TTI_FLIGHT_ON);
}

static bool is_counted_alike(const struct tti_group_plan *plan)
{
    bool alike = true;
    for (int32_t r = 0; plan->watch.ranks && r < plan->size && alike; r++) {
        alike = plan->watch.ranks[r] == r;
    }
    return alike;
}

/* Members count in the new group. The caller knows their ranks in the parent only, so the suspect becomes its rank
 * there, and the sentence says which one that is. */
static void translate_suspect(const struct tti_group_plan *plan, tutti_error *error)
{
    const int32_t member = error->suspect;
    if (member < 0 || member >= plan->size || is_counted_alike(plan)) {
        return;
    }
    char note[96];
    const int length =
        snprintf(note, sizeof(note), " (counted in the new group, whose rank %d is rank %d of the parent)", member,
                 plan->watch.ranks[member]);
    const size_t place = strnlen(error->message, sizeof(error->message) - 1 - (size_t)length);
    memcpy(error->message + place, note, (size_t)length + 1);
    error->suspect = plan->watch.ranks[member];
}

tutti_status tti_group_open(struct tti_group_plan *plan, tutti_group **group, tutti_error *error)
{
    struct tti_group *g = NULL;
    tutti_error own;
    error = error ? error : &own;
    tutti_status status = prepare(plan, &g, error);
    if (!g) {
        const bool alone = strcasecmp(tti_setting(plan->settings, TTI_SET_BACKEND), "null") == 0;
        if (!alone) {
            tti_group_decline(plan, status, error);
        }
        return status;
    }
    tti_formation_begin(&plan->watch, &g->rendezvous, plan->size, TTI_GROUP_READY);
    record(g, plan);
    struct tti_subgroup *declined;
    if (!tti_from_parent_form(g, plan, &declined, &status, error)) {
        status = tti_at_rendezvous_form(g, plan, error);
        tti_from_parent_end(declined, status == TUTTI_OK);
    }
    g->rendezvous.poll_failures = g->host_rendezvous.poll_failures = NULL;
    if (status != TUTTI_OK) {
        tti_handles_withdraw(&tti_groups, g->handle);
        free_group(g);
        translate_suspect(plan, error);
        return status;
    }
    tti_flight_open(g->flight, g->backend->name); /* no other thread has the handle yet */
    tti_handles_publish(&tti_groups, g->handle);
    *group = g->handle;
    return TUTTI_OK;
}
