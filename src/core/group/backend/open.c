/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening the engines of a group: the one that was chosen, and perhaps another one beside it, for what the first does
 * not do. Each has keys of its own at the rendezvous. A composed backend gets its parts from compose.c.
 */
#include "core/group/backend/open.h"

#include <stdio.h>

#include "base/clock.h"
#include "core/group/backend/compose.h"
#include "core/group/backend/engines.h"
#include "core/group/backend/registry.h"
#include "core/group/group_state.h"
#include "core/group/records/resolve.h"
#include "core/membership/wait_registry.h"
#include "core/memory/staging.h"

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

tutti_status tti_engines_open(struct tti_group *g, const struct tti_group_plan *plan, const struct tti_choice *choice,
                              const struct tti_hello *all, tutti_error *error)
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
