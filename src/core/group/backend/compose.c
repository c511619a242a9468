/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine of a composed backend is opened as a group's own is. Its backend is chosen from the records that all ranks
 * have read. It gets private keys of the rendezvous, and lists and numbers of its ranks only. It keeps the private keys
 * until it is closed; the rest is valid during the opening only.
 *
 * The parts have no heap: each heap would cost a mapping, and its memory would have to be known to the other parts.
 */
#include "core/group/backend/compose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/backend/choose.h"
#include "core/group/backend/engines.h"
#include "core/group/backend/registry.h"
#include "core/group/group_state.h"
#include "core/group/records/hello.h"

struct part {
    tutti_engine engine; /* first: close gets its address */
    struct tti_rendezvous rendezvous;
};

/* The settings of the group, without the heap. */
static const char *setting(const void *settings, const char *key)
{
    return strcmp(key, "engine.heap") == 0 ? "0" : tti_setting_by_key(settings, key);
}

static void close_part(tutti_engine *engine)
{
    struct part *p = (struct part *)engine;
    engine->backend->ops->close(engine->state);
    tti_rendezvous_close(&p->rendezvous);
    free(p);
}

static tutti_status no_memory(tutti_error *error, int32_t count)
{
    return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for an engine of %d ranks", count);
}

/* The ranks' numbers in the world. */
static int32_t *global_ranks(const struct tti_compose *c, const tutti_engine_wish *wish)
{
    int32_t *list = calloc((size_t)wish->count, sizeof(*list));
    for (int32_t i = 0; list && i < wish->count; i++) {
        list[i] = c->group->global_ranks[wish->ranks[i]];
    }
    return list;
}

static uint64_t *hosts_of(const struct tti_compose *c, const tutti_engine_wish *wish)
{
    uint64_t *list = calloc((size_t)wish->count, sizeof(*list));
    for (int32_t i = 0; list && i < wish->count; i++) {
        list[i] = c->all[wish->ranks[i]].host;
    }
    return list;
}

static int32_t own_place(const struct tti_compose *c, const tutti_engine_wish *wish)
{
    int32_t place = -1;
    for (int32_t i = 0; i < wish->count; i++) {
        place = wish->ranks[i] == c->group->rank ? i : place;
    }
    return place;
}

static tutti_status open_part(const struct tti_compose *c, const tutti_engine_wish *wish, struct part *p,
                              tutti_error *error)
{
    const struct tti_group *g = c->group;
    tutti_engine *e = &p->engine;
    int32_t *ranks = global_ranks(c, wish);
    uint64_t *hosts = hosts_of(c, wish);
    tutti_open_info info = {.size = sizeof(info),
                            .rank = e->rank,
                            .world_size = e->world_size,
                            .lanes = g->lanes,
                            .timeout_ms = tti_remaining_ms(c->deadline_ns),
                            .device = {kDLCPU, 0},
                            .rendezvous = &p->rendezvous.table,
                            .global_ranks = ranks,
                            .setting = setting,
                            .settings = g->settings,
                            .parent_state =
                                wish->parent && wish->parent->backend == e->backend ? wish->parent->state : NULL,
                            .hosts = hosts,
                            .call_timeout_ms = g->timeout_ms,
                            .socket_directory = g->socket_directory};
    tutti_status status = ranks && hosts ? tti_registry_start(e->backend, error) : no_memory(error, wish->count);
    status = status == TUTTI_OK ? e->backend->ops->open(&info, &e->state, error) : status;
    free(hosts);
    free(ranks);
    if (status == TUTTI_OK) {
        e->capabilities = tti_engine_capabilities(e->backend, e->state);
    }
    return status;
}

static tutti_status open_engine(void *self, const tutti_engine_wish *wish, tutti_engine **engine, tutti_error *error)
{
    const struct tti_compose *c = self;
    const tutti_backend *backend = NULL;
    char name[sizeof(c->rendezvous->name)];
    const int length = snprintf(name, sizeof(name), "%s/%s", c->rendezvous->name, wish->scope);
    const int32_t place = own_place(c, wish);
    if (!c->hosts) {
        return no_memory(error, c->group->size);
    }
    if (length < 0 || (size_t)length >= sizeof(name) || place < 0) {
        return tti_error_set(error, TUTTI_INTERNAL, "rank %d cannot open the engine %s", c->group->rank, wish->scope);
    }
    tutti_status status = tti_choose_part(c->all, wish->ranks, wish->count, wish->backend, &backend, error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct part *p = calloc(1, sizeof(*p));
    if (!p) {
        return no_memory(error, wish->count);
    }
    p->engine = (tutti_engine){
        .size = sizeof(p->engine), .rank = place, .world_size = wish->count, .backend = backend, .close = close_part};
    tti_rendezvous_open(&p->rendezvous, c->rendezvous->store, name);
    p->rendezvous.poll_failures = c->rendezvous->poll_failures;
    p->rendezvous.poll_user = c->rendezvous->poll_user;
    status = open_part(c, wish, p, error);
    p->rendezvous.poll_failures = NULL;
    if (status != TUTTI_OK) {
        tti_rendezvous_close(&p->rendezvous);
        free(p);
        return status;
    }
    *engine = &p->engine;
    return TUTTI_OK;
}

void tti_compose_init(struct tti_compose *c, const struct tti_group *group, const struct tti_rendezvous *rendezvous,
                      const struct tti_hello *all, int64_t deadline_ns)
{
    *c = (struct tti_compose){.table = {.size = sizeof(c->table), .self = c, .open = open_engine},
                              .group = group,
                              .rendezvous = rendezvous,
                              .all = all,
                              .deadline_ns = deadline_ns};
    c->hosts = all ? calloc((size_t)group->size, sizeof(*c->hosts)) : NULL;
    for (int32_t r = 0; c->hosts && r < group->size; r++) {
        c->hosts[r] = all[r].host;
    }
}

void tti_compose_end(struct tti_compose *c)
{
    free(c->hosts);
}
