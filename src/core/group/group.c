/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forming a group. One whose ranks share memory already, as members of its parent, is formed there (from_parent.c).
 * Others are formed in four rounds through the store:
 *   1. Every member publishes what it is and its settings under hello/RANK (resolve.c), and reads all records.
 *   2. Every member chooses the engine from the same records by the same rules (choose.c). If that depends on backends
 *      that no member has probed, all members probe them and exchange the results under asked/RANK.
 *   3. Every member opens the engine, and publishes its outcome under ready/RANK. One failure fails all members.
 *   4. The member that serves the store waits until the others need it no more (rendezvous_leave.c).
 */
#include "core/group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/deferred_ends.h"
#include "core/async/events.h"
#include "core/call/compare.h"
#include "core/call/lane.h"
#include "core/group/backend/choose.h"
#include "core/group/backend/compose.h"
#include "core/group/backend/engines.h"
#include "core/group/backend/registry.h"
#include "core/group/group_table.h"
#include "core/group/records/collect.h"
#include "core/group/records/resolve.h"
#include "core/membership/formation_watch.h"
#include "core/membership/from_parent.h"
#include "core/membership/rendezvous_leave.h"
#include "core/membership/same_host.h"
#include "core/membership/wait_registry.h"
#include "core/memory/pool.h"
#include "core/memory/staging.h"
#include "core/messages/messages.h"

#define SIZE_MAX_EXPECTED 4096 /* a record with a larger size is not waited for */

static tutti_status check_hello(const struct tti_group_plan *plan, const void *own, void *record, int r,
                                tutti_error *error)
{
    return tti_hello_check(plan, own, record, r, error);
}

static tutti_status check_outcome(const struct tti_group_plan *plan, const void *own, void *record, int r,
                                  tutti_error *error)
{
    struct tti_outcome *o = record;
    (void)own;
    o->rank = r;
    return tti_outcome_read(o, plan->size, error);
}

/* For the engine beside another one. */
static void open_host_rendezvous(struct tti_group *g, const struct tti_group_plan *plan)
{
    char name[sizeof(plan->name) + 2];
    snprintf(name, sizeof(name), "%s/h", plan->name);
    tti_rendezvous_open(&g->host_rendezvous, plan->store, name);
    g->host_rendezvous.poll_failures = g->rendezvous.poll_failures;
    g->host_rendezvous.poll_user = g->rendezvous.poll_user;
    g->host_rendezvous.poll_interval_ms = g->rendezvous.poll_interval_ms;
}

static tutti_status open_engine(struct tti_group *g, const struct tti_group_plan *plan, const tutti_backend *backend,
                                const struct tti_hello *all, void **state, tutti_error *error)
{
    const struct tti_group *p = plan->parent;
    const bool beside = backend != g->backend;
    if (beside) {
        open_host_rendezvous(g, plan);
    }
    tutti_status status = tti_registry_start(backend, error);
    struct tti_compose compose;
    tti_compose_init(&compose, g, beside ? &g->host_rendezvous : &g->rendezvous, all, plan->watch.deadline_ns);
    tutti_open_info info = {.size = sizeof(info),
                            .rank = g->rank,
                            .world_size = g->size,
                            .lanes = g->lanes,
                            .timeout_ms = tti_remaining_ms(plan->watch.deadline_ns),
                            .device = beside ? (DLDevice){kDLCPU, 0} : plan->engine_device,
                            .rendezvous = beside ? &g->host_rendezvous.table : &g->rendezvous.table,
                            .native_communicator = beside ? NULL : plan->native_communicator,
                            .global_ranks = g->global_ranks,
                            .setting = tti_setting_by_key,
                            .settings = g->settings,
                            .parent_state = p && p->backend == backend        ? p->state
                                            : p && p->host_backend == backend ? p->host_state
                                                                              : NULL,
                            .hosts = compose.hosts,
                            .engines = all ? &compose.table : NULL,
                            .call_timeout_ms = g->timeout_ms,
                            .socket_directory = g->socket_directory};
    if (!beside && !(backend->capabilities & TUTTI_CAP_CHECKS_CALLS)) {
        g->wait_registry = tti_wait_registry_open(g->rendezvous.store, g->rendezvous.name, g->rank, g->size);
        info.wait_registry = tti_wait_registry_table(g->wait_registry);
    }
    status = status != TUTTI_OK ? status : backend->ops->open(&info, state, error);
    tti_compose_end(&compose);
    return status;
}

/* Opens the engines that were chosen: both or none. */
static tutti_status open_engines(struct tti_group *g, const struct tti_group_plan *plan,
                                 const struct tti_choice *choice, const struct tti_hello *all, tutti_error *error)
{
    g->backend = choice->backend;
    tutti_status status = open_engine(g, plan, choice->backend, all, &g->state, error);
    if (status != TUTTI_OK) {
        return status;
    }
    g->takes_device =
        tti_group_on_device(g) && (tti_group_capabilities(g) & tti_resolve_capability(g->device.device_type)) != 0;
    g->stages_to_device = !tti_group_on_device(g) && plan->engine_device.device_type != kDLCPU;
    if (choice->host == choice->backend) {
        g->host_state = g->state;
    } else if (choice->host && (status = open_engine(g, plan, choice->host, all, &g->host_state, error)) != TUTTI_OK) {
        choice->backend->ops->close(g->state);
        return status;
    }
    g->host_backend = choice->host;
    if (plan->engine_device.device_type != kDLCPU &&
        (status = tti_staging_create(g, plan->engine_device, &g->staging, error)) != TUTTI_OK) {
        tti_group_close(g);
    }
    return status;
}

/* Reports a failure to the others. Not an abort, which concerns this rank alone. */
static void give_up(const struct tti_group_plan *plan, const struct tti_outcome *outcome)
{
    if (outcome->status != TUTTI_OK && outcome->status != TUTTI_REVOKED) {
        tti_formation_abort(&plan->watch, outcome);
    }
}

/* Publishes the outcome of opening and reads the outcome of all members: one failure fails all. */
static tutti_status confirm(struct tti_group *g, const struct tti_group_plan *plan, tutti_status mine,
                            tutti_error *error)
{
    const tutti_rendezvous *rv = &g->rendezvous.table;
    struct tti_outcome own;
    tutti_error second;
    char key[40];
    struct tti_outcome *all = calloc((size_t)g->size, sizeof(*all));
    if (mine == TUTTI_OK && !all) { /* a rank that reports OK must not fail afterwards */
        mine = tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a group of %d ranks", g->size);
    }
    tti_outcome_fill(&own, g->rank, g->backend->name, mine, error);
    give_up(plan, &own); /* first: a rank that reads the record must find the reason there already */
    snprintf(key, sizeof(key), TTI_GROUP_READY "/%d", g->rank);
    tutti_status status = rv->set(rv->self, key, &own, sizeof(own), &second);
    if (mine != TUTTI_OK) {
        status = mine;
    } else if (status == TUTTI_OK) {
        status = tti_collect_records(plan, &g->rendezvous, TTI_GROUP_READY, all, sizeof(*all), check_outcome, error);
    } else {
        *error = second;
    }
    free(all);
    return status;
}

void tti_group_decline(struct tti_group_plan *plan, tutti_status why, const tutti_error *error)
{
    struct tti_rendezvous place;
    struct tti_outcome outcome;
    tti_rendezvous_open(&place, plan->store, plan->name);
    tti_formation_begin(&plan->watch, &place, plan->size, TTI_GROUP_READY);
    tti_outcome_fill(&outcome, plan->rank, "", why, error);
    give_up(plan, &outcome);
    tti_rendezvous_leave(plan, true, plan->size, why);
    tti_rendezvous_close(&place);
}

/* Publishes the own record. */
static tutti_status publish_hello(struct tti_group *g, const struct tti_hello *own, tutti_error *error)
{
    const tutti_rendezvous *rv = &g->rendezvous.table;
    char key[40];
    snprintf(key, sizeof(key), "hello/%d", g->rank);
    tutti_status status = rv->set(rv->self, key, own, sizeof(*own), error);
    if (status == TUTTI_BUSY) {
        status = tti_error_set(error, TUTTI_RANK_TAKEN,
                               "another process has joined this job as rank %d; check RANK and the "
                               "like, and that no other job uses the same rendezvous%s",
                               g->rank,
                               tti_store_lasts(g->rendezvous.store)
                                   ? "; if an earlier job was stopped on another machine, name a new directory"
                                   : "");
    }
    return status;
}

/* The largest size that a member expects: if sizes differ, all these ranks read the error before the server leaves. */
static int32_t largest_size(const struct tti_hello *all, int32_t size)
{
    int32_t largest = size;
    for (int r = 0; r < size; r++) {
        largest = all[r].size > largest && all[r].size <= SIZE_MAX_EXPECTED ? all[r].size : largest;
    }
    return largest;
}

static tutti_status check_answer(const struct tti_group_plan *plan, const void *own, void *record, int r,
                                 tutti_error *error)
{
    (void)plan;
    (void)own;
    return tti_backend_answer_check(record, r, error);
}

/* Every rank probes the backends that it has left out, publishes the results, and reads those of the others. */
static tutti_status probe_late(struct tti_group *g, const struct tti_group_plan *plan, struct tti_hello *all,
                               tutti_error *error)
{
    const tutti_rendezvous *rv = &g->rendezvous.table;
    struct tti_backend_answer *answers = calloc((size_t)g->size, sizeof(*answers));
    if (!answers) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %d ranks", g->size);
    }
    char key[40];
    snprintf(key, sizeof(key), "asked/%d", g->rank);
    tti_hello_probe_backends(&all[g->rank], &answers[g->rank]);
    tutti_status status = rv->set(rv->self, key, &answers[g->rank], sizeof(*answers), error);
    status = status == TUTTI_OK
                 ? tti_collect_records(plan, &g->rendezvous, "asked", answers, sizeof(*answers), check_answer, error)
                 : status;
    for (int r = 0; r < g->size; r++) {
        tti_hello_merge(&all[r], &answers[r]);
    }
    free(answers);
    return status;
}

static tutti_status choose(struct tti_group *g, const struct tti_group_plan *plan, struct tti_hello *all,
                           struct tti_choice *choice, tutti_error *error)
{
    tutti_status status = tti_choose(plan, all, choice, error);
    if (status == TUTTI_OK && choice->unprobed && (status = probe_late(g, plan, all, error)) == TUTTI_OK) {
        status = tti_choose(plan, all, choice, error);
    }
    return status;
}

/* For error sentences. Without memory they have no host names; on one host they need none. */
static void keep_host_names(struct tti_group *g, const struct tti_hello *all)
{
    bool several = false;
    for (int r = 0; r < g->size; r++) {
        several = several || all[r].host != all[0].host;
    }
    g->host_names = several ? calloc((size_t)g->size, sizeof(*g->host_names)) : NULL;
    for (int r = 0; r < g->size && g->host_names; r++) {
        snprintf(g->host_names[r], sizeof(g->host_names[r]), "%s", all[r].node);
    }
}

/* For tutti_group_describe; without memory there is no reason. */
static void keep_reason(struct tti_group *g, const struct tti_hello *all, const tutti_backend *chosen)
{
    char why[400];
    g->shm_unused_reason = tti_choose_shm_unused(all, g->size, chosen, why, sizeof(why)) ? strdup(why) : NULL;
}

static tutti_status open_together(struct tti_group *g, struct tti_group_plan *plan, const struct tti_choice *choice,
                                  const struct tti_hello *all, tutti_error *error)
{
    tutti_status opened = open_engines(g, plan, choice, all, error);
    const bool open = opened == TUTTI_OK;
    if (open) {
        plan->watch.open = g;
        opened = tti_comparison_open(g, error);
    }
    tutti_status status = confirm(g, plan, opened, error);
    plan->watch.open = NULL;
    if (opened == TUTTI_OK && tti_is_loss(status)) {
        /* other ranks may have the group already, and get the lost rank as its cause */
        tti_group_abort(g, TUTTI_LANE_NONE, error);
    }
    if (status != TUTTI_OK && open) {
        tti_group_close(g);
    }
    if (status != TUTTI_OK) {
        snprintf(error->backend, sizeof(error->backend), "%s", choice->backend->name);
    }
    return status;
}

/* Reads the records, chooses the engine, opens it. */
static tutti_status make(struct tti_group *g, struct tti_group_plan *plan, struct tti_hello *all, tutti_error *error)
{
    struct tti_choice choice = {0};
    plan->watch.accepting = true;
    tutti_status status = tti_collect_records(plan, &g->rendezvous, "hello", all, sizeof(*all), check_hello, error);
    plan->watch.accepting = false;
    status = status == TUTTI_OK ? tti_same_host_find(plan, &g->rendezvous, all, &g->pidfds, error) : status;
    status = status == TUTTI_OK ? choose(g, plan, all, &choice, error) : status;
    if (status != TUTTI_OK) { /* every rank has the same records and fails alike, or a rank is missing */
        tti_same_host_withdraw(plan, &g->rendezvous, &g->pidfds);
        return status;
    }
    keep_host_names(g, all);
    keep_reason(g, all, choice.backend);
    g->socket_directory = all[g->rank].site.by_directory ? tti_setting(g->settings, TTI_SET_SHM_DIRECTORY) : NULL;
    const int32_t server = tti_formation_server(&plan->watch);
    g->served_by = server >= 0 ? g->global_ranks[server] : g->served_by; /* else as the parent knows it */
    status = open_together(g, plan, &choice, all, error);
    tti_same_host_withdraw(plan, &g->rendezvous, &g->pidfds);
    return status;
}

/* A group of backend "null": no other rank needs to exist. */
static tutti_status make_alone(struct tti_group *g, const struct tti_group_plan *plan, tutti_error *error)
{
    struct tti_choice choice = {0};
    tutti_status status = tti_registry_find("null", &choice.backend, error);
    choice.host = choice.backend;
    return status == TUTTI_OK ? open_engines(g, plan, &choice, NULL, error) : status;
}

/* Forms the group at the rendezvous, and leaves when the other members have the outcome. */
static tutti_status rendezvous_with(struct tti_group *g, struct tti_group_plan *plan, struct tti_hello *all,
                                    tutti_error *error)
{
    tutti_error own_error;
    tutti_status mine = tti_resolve_devices(plan, &own_error);
    g->device = plan->device;
    g->device_ops = tti_device_of(g->device.device_type);
    mine = tti_hello_fill(plan, mine, &all[plan->rank], &own_error);
    if (mine == TUTTI_OK && strcasecmp(all[plan->rank].backend, "null") == 0) {
        return make_alone(g, plan, error);
    }
    tutti_status status = publish_hello(g, &all[plan->rank], error);
    const bool formed = status == TUTTI_OK;
    if (formed && mine != TUTTI_OK) {
        *error = own_error;
        status = mine;
    }
    status = status == TUTTI_OK ? make(g, plan, all, error) : status;
    const bool member =
        formed || tti_is_resource_error(status); /* and not a process with a rank that another process has taken */
    if (member) {
        struct tti_outcome outcome;
        tti_outcome_fill(&outcome, g->rank, error->backend, status, error);
        give_up(plan, &outcome);
    }
    tti_rendezvous_leave(plan, member, formed && mine == TUTTI_OK ? largest_size(all, plan->size) : plan->size, status);
    return status;
}

static tutti_status rendezvous_all(struct tti_group *g, struct tti_group_plan *plan, tutti_error *error)
{
    struct tti_hello *all = calloc((size_t)plan->size, sizeof(*all));
    if (!all) {
        tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %d ranks", plan->size);
        tti_group_decline(plan, TUTTI_NO_MEMORY, error);
        return TUTTI_NO_MEMORY;
    }
    plan->watch.hellos = all;
    plan->watch.self = plan->rank;
    const tutti_status status = rendezvous_with(g, plan, all, error);
    plan->watch.hellos = NULL;
    free(all);
    return status;
}

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
        status = rendezvous_all(g, plan, error);
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
