/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forming a group in four rounds through the store:
 *   1. Every member publishes what it is and its settings under hello/RANK (resolve.c), and reads all records.
 *   2. Every member chooses the engine from the same records by the same rules (choose.c). If that depends on backends
 *      that no member has probed, all members probe them and exchange the results under asked/RANK.
 *   3. Every member opens the engine, and publishes its outcome under ready/RANK. One failure fails all members.
 *   4. The member that serves the store waits until the others need it no more (rendezvous_leave.c).
 */
#include "core/group/at_rendezvous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "core/call/compare.h"
#include "core/group/backend/choose.h"
#include "core/group/backend/engines.h"
#include "core/group/backend/open.h"
#include "core/group/backend/registry.h"
#include "core/group/group_state.h"
#include "core/group/records/collect.h"
#include "core/group/records/resolve.h"
#include "core/membership/formation_watch.h"
#include "core/membership/rendezvous_leave.h"
#include "core/membership/same_host.h"

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
    tutti_status opened = tti_engines_open(g, plan, choice, all, error);
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
    return status == TUTTI_OK ? tti_engines_open(g, plan, &choice, NULL, error) : status;
}

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

tutti_status tti_at_rendezvous_form(struct tti_group *g, struct tti_group_plan *plan, tutti_error *error)
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
