/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group whose parent runs on shm, with the parent's settings, needs no rendezvous: backends/shm/subgroup.c. Each
 * member decides for itself whether it can go this way. A member that cannot goes to the rendezvous, where the others
 * find its record, take their offers back, and follow. No member has the group before: it needs the offers of all.
 *
 * Waits are cut into slices, and polls for failures come from the formation watch, as at the rendezvous. So the store
 * is asked only if a member is a millisecond late. A member that aborts records the cause there first, and then takes
 * its offer back.
 *
 * Cost: one hop for each member; no request to the store.
 */
#include "core/membership/from_parent.h"

#include <stdio.h>
#include <string.h>

#include "backends/shm/shm.h"
#include "backends/shm/subgroup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/wait/polled_wait.h"
#include "core/group/group_state.h"
#include "core/group/records/collect.h"
#include "core/group/records/hello.h"
#include "core/membership/formation_watch.h"
#include "core/membership/rendezvous_leave.h"

/* The state of forming one group. */
struct formation {
    struct tti_group_plan *plan;
    struct tti_subgroup *subgroup;
    const tutti_rendezvous *rendezvous;
    int32_t member; /* that is awaited */
    bool declined;  /* it is at the rendezvous */
};

/* A setting that members may differ in, or that says nothing about the engine. */
static bool is_private(int which)
{
    return which == TTI_SET_TIMEOUT_MS || which == TTI_SET_FLIGHT || which == TTI_SET_NAME || which == TTI_SET_STORE;
}

static bool has_same_settings(const struct tti_settings *a, const struct tti_settings *b)
{
    for (int i = 0; a != b && i < TTI_SETTINGS; i++) {
        if (!is_private(i) && strcmp(tti_setting(a, i), tti_setting(b, i)) != 0) {
            return false;
        }
    }
    return true;
}

/* pidfds of other namespaces belong to the parent, and host names mean several hosts. */
static bool is_possible(const struct tti_group_plan *plan)
{
    const struct tti_group *p = plan->parent;
    return p && plan->store == p->rendezvous.store && p->backend == &tti_backend_shm && p->host_backend == p->backend &&
           !tti_group_on_device(p) && !p->staging && !p->comparison && !p->pidfds.instances && !p->host_names &&
           !plan->native_communicator && has_same_settings(plan->settings, p->settings);
}

static struct tti_subgroup *prepare(const struct tti_group *g, const struct tti_group_plan *plan)
{
    const tutti_open_info info = {.size = sizeof(info),
                                  .rank = g->rank,
                                  .world_size = g->size,
                                  .lanes = g->lanes,
                                  .timeout_ms = plan->watch.timeout_ms,
                                  .device = {kDLCPU, 0},
                                  .rendezvous = &g->rendezvous.table,
                                  .global_ranks = g->global_ranks,
                                  .setting = tti_setting_by_key,
                                  .settings = g->settings,
                                  .parent_state = plan->parent->state,
                                  .call_timeout_ms = g->timeout_ms,
                                  .socket_directory = g->socket_directory};
    return tti_subgroup_prepare(&info, plan->watch.ranks, plan->list, plan->list_serial);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

static tutti_status await_member(void *user, int64_t slice_ms, tutti_error *error)
{
    const struct formation *f = user;
    switch (tti_subgroup_await(f->subgroup, f->member, tti_deadline_ns(tti_now_ns(), slice_ms))) {
    case TTI_SUBGROUP_FOUND:
        return TUTTI_OK;
    case TTI_SUBGROUP_CORRUPT:
        tti_error_set(error, TUTTI_PROTOCOL, "rank %d offers memory for the new group that its segment does not have",
                      f->member);
        error->suspect = f->member;
        return TUTTI_PROTOCOL;
    default: /* one that has taken its offer back has recorded its cause, or is at the rendezvous in a moment */
        return TUTTI_TIMEOUT;
    }
}

static bool is_at_rendezvous(const struct formation *f)
{
    char key[40];
    struct tti_hello unused;
    size_t length = 0;
    snprintf(key, sizeof(key), "hello/%d", f->member);
    const tutti_status status = f->rendezvous->get(f->rendezvous->self, key, &unused, sizeof(unused), &length, 0, NULL);
    return status == TUTTI_OK || status == TUTTI_PROTOCOL; /* PROTOCOL: another version's record */
}

static tutti_status poll(void *user, tutti_error *error)
{
    struct formation *f = user;
    const tutti_status status = tti_formation_poll(&f->plan->watch, error);
    f->declined = status == TUTTI_OK && is_at_rendezvous(f);
    return f->declined ? tti_error_set(error, TUTTI_NOT_AVAILABLE, "rank %d is at the rendezvous", f->member) : status;
}

static bool is_missing(void *user, int32_t member)
{
    const struct formation *f = user;
    return tti_subgroup_find(f->subgroup, member) != TTI_SUBGROUP_FOUND;
}

static bool has_offered(void *user, int32_t member)
{
    return !is_missing(user, member);
}

static tutti_status await_all(struct formation *f, tutti_error *error)
{
    const struct tti_polled_wait wait = {
        .attempt = await_member, .poll = poll, .user = f, .min_slice_ms = TTI_POLL_MIN_MS};
    tutti_status status = TUTTI_OK;
    for (f->member = 0; f->member < f->plan->size && status == TUTTI_OK; f->member++) {
        if (tti_subgroup_find(f->subgroup, f->member) == TTI_SUBGROUP_FOUND) {
            continue;
        }
        tti_error_clear(error);
        status = tti_wait_polling(&wait, f->plan->watch.deadline_ns, error);
        if (status == TUTTI_TIMEOUT && error->suspect < 0) {
            status = tti_collect_name_missing(f->plan, is_missing, f, error);
        }
    }
    return status;
}

static bool has_all(const struct formation *f)
{
    for (int32_t i = 0; i < f->plan->size; i++) {
        if (tti_subgroup_find(f->subgroup, i) != TTI_SUBGROUP_FOUND) {
            return false;
        }
    }
    return true;
}

/* ---- the outcome ------------------------------------------------------------------------------------------------ */

static void take_over(struct tti_group *g, const struct tti_group *parent, void *state)
{
    g->backend = g->host_backend = parent->backend;
    g->state = g->host_state = state;
}

/* First the cause, for members that see that the offer was taken back. */
static void give_up(const struct tti_group *g, const struct formation *f, tutti_status status, tutti_error *error)
{
    struct tti_outcome outcome;
    tti_outcome_fill(&outcome, g->rank, "", status, error);
    tti_formation_abort(&f->plan->watch, &outcome);
    tti_subgroup_withdraw(f->subgroup, error);
    tti_rendezvous_leave(f->plan, true, f->plan->size, status);
}

bool tti_from_parent_form(struct tti_group *g, struct tti_group_plan *plan, struct tti_subgroup **declined,
                          tutti_status *status, tutti_error *error)
{
    struct formation f = {.plan = plan, .rendezvous = &g->rendezvous.table};
    *declined = NULL;
    if (!is_possible(plan)) {
        return false;
    }
    g->socket_directory = plan->parent->socket_directory ? tti_setting(g->settings, TTI_SET_SHM_DIRECTORY) : NULL;
    if (!(f.subgroup = prepare(g, plan))) {
        return false;
    }
    plan->device = plan->engine_device = (DLDevice){kDLCPU, 0};
    plan->watch.has_offered = has_offered;
    plan->watch.offers = &f;
    tti_subgroup_offer(f.subgroup);
    *status = await_all(&f, error);
    if (*status != TUTTI_OK && !f.declined && has_all(&f)) { /* the others arrived while this rank found the cause */
        *status = tti_error_clear(error);
    }
    if (*status == TUTTI_OK) {
        take_over(g, plan->parent, tti_subgroup_finish(f.subgroup));
    } else if (f.declined) {
        tti_subgroup_withdraw(f.subgroup, NULL);
        *declined = f.subgroup;
    } else {
        give_up(g, &f, *status, error);
        tti_subgroup_end(f.subgroup, false);
    }
    plan->watch.has_offered = NULL;
    return !f.declined;
}

void tti_from_parent_end(struct tti_subgroup *declined, bool formed)
{
    if (declined) {
        tti_subgroup_end(declined, formed);
    }
}
