/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names a new group and hands its plan to tti_group_open. All members have to compute the same name without asking one
 * another, since the name is the prefix of their keys in the store:
 *
 * - a world: see world_name.c;
 * - a group from a list: a hash of the parent's name and the list, and how often the parent has seen that list;
 * - a part of a split (split.c): a hash like that, and how often the parent has been split.
 *
 * The counts agree because all members make their groups in the same order. A rank that fails before it opens the group
 * declines it, so that the others get its cause at once instead of a timeout.
 */
#include "core/membership/join.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "core/group/at_rendezvous.h"
#include "core/group/backend/registry.h"
#include "core/group/group.h"
#include "core/launchers/world.h"
#include "core/membership/formation_watch.h"
#include "core/membership/world_name.h"

/* Stores that are made for one group and never used again need no count. */
static bool is_single_use(const char *url)
{
    return strncmp(url, "memory:alone-", 13) == 0 || strncmp(url, "memory:threads-", 15) == 0;
}

/* Whether the configuration itself names a store. */
static bool names_store(const tutti_config *config)
{
    bool named = config && (config->store || config->store_callbacks);
    for (const char *const *s = config ? config->settings : NULL; s && *s; s++) {
        named = named || strncmp(*s, "store=", strlen("store=")) == 0;
    }
    return named;
}

/* Rank, size and store: from the struct, or else from the environment. A world of one rank that the struct asks for
 * gets a private store: the environment's store belongs to the job, in which several processes may make such worlds. */
static tutti_status find_world(const tutti_config *config, const struct tti_settings *settings, struct tti_world *world,
                               tutti_error *error)
{
    const char *store = tti_setting(settings, TTI_SET_STORE);
    bool own_store = config && config->store_callbacks;
    if (config && config->world_size > 0) {
        *world = (struct tti_world){.rank = config->rank, .size = config->world_size, .family = "config"};
        world->local_rank = world->local_size = -1;
        world->serve = config->rank == 0;
        const bool private = world->size == 1 && !names_store(config);
        snprintf(world->store_url, sizeof(world->store_url), "%s", private ? "" : store);
        bool alone = strcasecmp(tti_setting(settings, TTI_SET_BACKEND), "null") == 0;
        if (store[0] == '\0' && !own_store && world->size > 1 && !alone) {
            return tti_error_set(
                error, TUTTI_INVALID_ARGUMENT,
                "config.world_size is %d, but neither config.store nor TUTTI_STORE names the rendezvous "
                "store",
                world->size);
        }
    } else {
        tutti_status status = tti_world_from_environment(own_store || store[0] != '\0', world, error);
        if (status != TUTTI_OK) {
            return status;
        }
        if (store[0] != '\0') {
            snprintf(world->store_url, sizeof(world->store_url), "%s", store);
            world->serve = world->rank == 0;
        }
    }
    if (world->store_url[0] == '\0') {  /* a world of one, or the null backend */
        static _Atomic unsigned serial; /* relaxed: only has to differ */
        snprintf(world->store_url, sizeof(world->store_url), "memory:alone-%d-%u", (int)getpid(),
                 atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    }
    return TUTTI_OK;
}

/* Before the rendezvous, which the null backend does not have. */
static tutti_status check_size(const struct tti_world *world, const struct tti_settings *settings, tutti_error *error)
{
    const char *wish = tti_setting(settings, TTI_SET_BACKEND);
    char name[40];
    if (world->size <= TTI_GROUP_RANKS_MAX || strcasecmp(wish, "null") == 0) {
        /* An unknown name is an error of the record, so that all ranks get it. */
        return tti_registry_choice(wish, "cpu", name, sizeof(name), NULL) == TUTTI_OK
                   ? tti_registry_check_ranks(tutti_backend_find(name), world->size, error)
                   : TUTTI_OK;
    }
    return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: a world of %d ranks; at most %d can meet at a rendezvous",
                         strcmp(world->family, "config") == 0 ? "config.world_size" : world->family, world->size,
                         TTI_GROUP_RANKS_MAX);
}

/* Port and path: ranks may write the host differently. */
static const char *without_host(const char *url)
{
    const char *host = strncmp(url, "tcp://", 6) == 0 ? url + 6 : NULL;
    const char *end = host && *host == '[' ? strchr(host, ']') : host;
    const char *port = end ? strchr(end, ':') : NULL;
    return port ? port : url;
}

/* Worlds inside one process, and worlds with another store than the job, get a suffix that separates them from others
 * with the same number: flight records name groups by it. The same on all ranks. */
static void add_name_suffix(struct tti_group_plan *plan, const char *url, const char *store)
{
    const char *job = getenv("TUTTI_STORE");
    if (strncmp(url, "memory:", 7) == 0) {
        const uint64_t hash = tti_hash_text(TTI_HASH_EMPTY ^ (uint64_t)getpid(), url);
        snprintf(plan->name_suffix, sizeof(plan->name_suffix), "-%08x", (unsigned)tti_hash_fold(hash));
    } else if (strcmp(url, store) == 0 &&
               !(job && strcmp(store, job) == 0)) { /* the application has chosen the store */
        const uint64_t hash = tti_hash_text(TTI_HASH_EMPTY, without_host(url));
        snprintf(plan->name_suffix, sizeof(plan->name_suffix), "@%06x", (unsigned)tti_hash_fold(hash) & 0xffffffU);
    }
}

static tutti_status join_world(struct tti_group_plan *plan, const tutti_config *config, tutti_group **group,
                               tutti_error *error)
{
    struct tti_world world;
    tutti_status status = find_world(config, plan->settings, &world, error);
    status = status == TUTTI_OK ? check_size(&world, plan->settings, error) : status;
    if (status != TUTTI_OK) {
        return status;
    }
    plan->rank = world.rank;
    plan->size = world.size;
    plan->local_rank = world.local_rank >= 0 ? world.local_rank : world.rank;
    plan->native_communicator = config ? config->native_communicator : NULL;
    tti_formation_limit(&plan->watch, tti_setting_number(plan->settings, TTI_SET_TIMEOUT_MS));
    const char *name = tti_setting(plan->settings, TTI_SET_NAME);
    char url[320];
    bool counted = true;
    if (config && config->store_callbacks) {
        /* A name over callbacks is new for each world: a rank may join under another number than before, so that counts
         * of ranks would differ. */
        counted = name[0] == '\0';
        snprintf(url, sizeof(url), "callbacks:%p %llx", config->store_callbacks->user,
                 (unsigned long long)(uintptr_t)config->store_callbacks->get);
        status = tti_store_open_callbacks(config->store_callbacks, &plan->store, error);
    } else {
        snprintf(url, sizeof(url), "%s", world.store_url);
        counted = !is_single_use(url);
        status = tti_store_open(world.store_url, world.serve, plan->watch.timeout_ms, &plan->store, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status =
        tti_world_name(plan->store, url, name, plan->rank, plan->size, counted, plan->name, sizeof(plan->name), error);
    add_name_suffix(plan, url, tti_setting(plan->settings, TTI_SET_STORE));
    if (status == TUTTI_OK) {
        status = tti_group_open(plan, group, error);
    } else {
        tti_group_decline(plan, status, error);
    }
    tti_store_release(plan->store);
    return status;
}

tutti_status tti_join_world(const tutti_config *config, tutti_group **group, tutti_error *error)
{
    struct tti_group_plan plan = {.operation = TUTTI_OP_INIT};
    tutti_error unused;
    error = error ? error : &unused;
    tutti_status status = tti_settings_resolve(config, NULL, &plan.settings, error);
    if (status == TUTTI_OK) {
        status = join_world(&plan, config, group, error);
        tti_settings_release(plan.settings);
    }
    return status;
}

static uint64_t hash_ranks(uint64_t h, const int32_t *ranks, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        h = tti_hash_number(h, (uint32_t)ranks[i]);
    }
    return h;
}

/* All members of a list create its groups in the same order, so their counters agree. */
static tutti_status count_list(struct tti_group *parent, uint64_t hash, uint32_t *count, tutti_error *error)
{
    pthread_mutex_lock(&parent->names_lock);
    struct tti_list_count *l = parent->lists;
    while (l && l->hash != hash) {
        l = l->next;
    }
    if (!l && (l = calloc(1, sizeof(*l)))) {
        l->hash = hash;
        l->next = parent->lists;
        parent->lists = l;
    }
    if (l) {
        *count = l->count++;
    }
    pthread_mutex_unlock(&parent->names_lock);
    return l ? TUTTI_OK : tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a list of ranks");
}

tutti_status tti_join_prepare(struct tti_group *parent, tutti_operation operation, const tutti_config *config,
                              struct tti_group_plan *plan, tutti_error *error)
{
    *plan = (struct tti_group_plan){.local_rank = parent->local_rank,
                                    .operation = operation,
                                    .parent = parent,
                                    .store = parent->rendezvous.store,
                                    .native_communicator = config ? config->native_communicator : NULL};
    const tutti_status status = tti_settings_resolve(config, parent->settings, &plan->settings, error);
    if (status == TUTTI_OK) {
        tti_formation_limit(&plan->watch, tti_setting_number(plan->settings, TTI_SET_TIMEOUT_MS));
    }
    return status;
}

/* `kind` separates groups whose serials are counted in different ways. */
static void set_members(struct tti_group_plan *plan, const char *kind, const int32_t *ranks, int32_t count, int32_t own)
{
    const uint64_t start = tti_hash_text(tti_hash_text(TTI_HASH_EMPTY, kind), plan->parent->rendezvous.name);
    plan->rank = own;
    plan->size = count;
    plan->watch.parent = plan->parent;
    plan->watch.ranks = ranks;
    plan->watch.count = count;
    plan->list = hash_ranks(start, ranks, count);
}

static void set_serial(struct tti_group_plan *plan, uint32_t serial)
{
    plan->list_serial = serial;
    snprintf(plan->name, sizeof(plan->name), "g%016llx.%u", (unsigned long long)plan->list, serial);
}

tutti_status tti_join_part(struct tti_group_plan *plan, const int32_t *ranks, int32_t count, int32_t own,
                           uint32_t serial, tutti_group **group, tutti_error *error)
{
    set_members(plan, "split:", ranks, count, own);
    set_serial(plan, serial);
    return tti_group_open(plan, group, error);
}

tutti_status tti_join_list(struct tti_group *parent, const int32_t *ranks, int32_t count, int32_t own,
                           const tutti_config *config, tutti_group **group, tutti_error *error)
{
    struct tti_group_plan plan;
    tutti_error unused;
    error = error ? error : &unused;
    tutti_status status = tti_join_prepare(parent, TUTTI_OP_CREATE, config, &plan, error);
    if (status != TUTTI_OK) {
        return status;
    }
    uint32_t serial = 0; /* as it is where there is no memory to count the first time */
    set_members(&plan, "", ranks, count, own);
    status = count_list(parent, plan.list, &serial, error);
    set_serial(&plan, serial);
    if (status == TUTTI_OK) {
        status = tti_group_open(&plan, group, error);
    } else {
        tti_group_decline(&plan, status, error);
    }
    tti_settings_release(plan.settings);
    return status;
}
