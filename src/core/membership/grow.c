/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Growing: members and newcomers open the store that the token names, and form a group as tutti_init does. Rank 0 of
 * the old group puts a record there for the newcomers: the size and the engine of the new group. Newcomers take their
 * ranks in the order of their arrival: a key of the store can be set once, so no two get the same.
 *
 * The old group provides its settings and its lost ranks, and stays as it is: the new group is a world of its own. If
 * the members fail to form it, they report the cause to the newcomers.
 */
#include "core/membership/grow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <tutti/recovery.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "core/group/backend/engines.h"
#include "core/group/group.h"
#include "core/group/group_state.h"
#include "core/membership/formation_watch.h"

#define GROWTH_MAGIC 0x776f7267u /* "grow" */

/* The record for newcomers. Fixed layout: it is sent between processes. */
struct growth {
    uint32_t magic;
    int32_t members;
    int32_t newcomers;
    int32_t lanes;
    char backend[16];
};

tutti_status tti_grow_check(const struct tti_group *g, const char *function, tutti_error *error)
{
    return tti_group_capabilities(g) & TUTTI_CAP_GROW
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_UNSUPPORTED,
                               "%s: a group of backend %s cannot take new ranks; start the job again with more of them",
                               function, g->backend->name);
}

tutti_status tti_grow_token(const struct tti_group *g, char *token, size_t capacity, tutti_error *error)
{
    uint64_t r[2];
    char url[TTI_STORE_LOCAL_URL];
    if (getrandom(r, sizeof(r), 0) != sizeof(r)) {
        return tti_error_system(error, errno, "no random token");
    }
    if (g->backend->capabilities & TUTTI_CAP_ONE_PROCESS) {
        snprintf(url, sizeof(url), "memory:grow-%016llx%016llx", (unsigned long long)r[0], (unsigned long long)r[1]);
    } else {
        tti_store_local_url(g->socket_directory, "grow", r, url);
    }
    if (strlen(url) >= TUTTI_TOKEN_BYTES) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "group_token: a token with the directory %s would be longer than %d bytes; take a shorter "
                             "path for shm.directory",
                             g->socket_directory, TUTTI_TOKEN_BYTES - 1);
    }
    snprintf(token, capacity, "%s", url);
    return TUTTI_OK;
}

/* The same name on all members, and unique: flight records name groups by it. */
static void name_grown(struct tti_group_plan *plan, const char *token)
{
    const uint64_t hash = tti_hash_text(TTI_HASH_EMPTY, token);
    snprintf(plan->name, sizeof(plan->name), "grown-%08x", (unsigned)tti_hash_fold(hash));
}

static tutti_status open_grown(struct tti_group_plan *plan, const struct growth *growth, int32_t rank,
                               tutti_group **grown, tutti_error *error)
{
    plan->rank = rank;
    plan->size = growth->members + growth->newcomers;
    return tti_group_open(plan, grown, error);
}

tutti_status tti_grow(struct tti_group *g, const char *token, int32_t newcomers, int64_t timeout_ms,
                      tutti_group **grown, tutti_error *error)
{
    struct tti_group_plan plan = {
        .operation = TUTTI_OP_GROW, .local_rank = g->local_rank, .watch = {.parent = g, .count = g->size}};
    struct growth growth = {.magic = GROWTH_MAGIC, .members = g->size, .newcomers = newcomers, .lanes = g->lanes};
    snprintf(growth.backend, sizeof(growth.backend), "%s", g->backend->name);
    const tutti_config config = {.size = sizeof(config), .backend = tti_group_on_device(g) ? NULL : g->backend->name};
    char key[sizeof(plan.name) + 8];
    name_grown(&plan, token);
    snprintf(key, sizeof(key), "%s/growth", plan.name);
    tti_formation_limit(&plan.watch, timeout_ms);
    tutti_status status = tti_store_open(token, g->rank == 0, timeout_ms, &plan.store, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tti_settings_resolve(&config, g->settings, &plan.settings, error);
    if (status == TUTTI_OK && g->rank == 0 &&
        (status = tti_store_set(plan.store, key, &growth, sizeof(growth), error)) == TUTTI_BUSY) {
        tti_error_set(error, status, "group_grow: this token has been used already; make a new one");
    }
    if (status == TUTTI_OK) {
        status = open_grown(&plan, &growth, g->rank, grown, error);
    }
    tti_settings_release(plan.settings);
    tti_store_release(plan.store);
    return status;
}

static tutti_status grow_timeout(const struct tti_group_plan *plan, tutti_error *error)
{
    return tti_error_set(error, TUTTI_TIMEOUT, "no group has grown by this token within %lld ms",
                         (long long)plan->watch.timeout_ms);
}

/* Reads the record of rank 0. Members that fail before it is put report their cause. */
static tutti_status read_growth(struct tti_group_plan *plan, struct growth *growth, tutti_error *error)
{
    struct tti_rendezvous rendezvous;
    size_t length = 0;
    tti_rendezvous_open(&rendezvous, plan->store, plan->name);
    tti_formation_begin(&plan->watch, &rendezvous, INT32_MAX, TTI_GROUP_READY);
    tutti_status status = rendezvous.table.get(rendezvous.table.self, "growth", growth, sizeof(*growth), &length,
                                               tti_remaining_ms(plan->watch.deadline_ns), error);
    tti_rendezvous_close(&rendezvous);
    if (status == TUTTI_TIMEOUT) {
        return grow_timeout(plan, error);
    }
    if (status == TUTTI_OK &&
        (length != sizeof(*growth) || growth->magic != GROWTH_MAGIC || growth->members < 1 || growth->newcomers < 1 ||
         growth->members > TTI_GROUP_RANKS_MAX || growth->newcomers > TTI_GROUP_RANKS_MAX - growth->members ||
         growth->lanes < 1 || growth->lanes > TUTTI_MAX_LANES)) {
        return tti_error_set(error, TUTTI_PROTOCOL,
                             "the record in the store of the token is not that of a group that grows");
    }
    growth->backend[sizeof(growth->backend) - 1] = '\0';
    return status;
}

static tutti_status take_number(struct tti_store *store, const struct growth *growth, int32_t *rank, tutti_error *error)
{
    for (int32_t i = 0; i < growth->newcomers; i++) {
        char key[40];
        snprintf(key, sizeof(key), "newcomer/%d", i);
        tutti_status status = tti_store_set(store, key, "", 1, error);
        if (status != TUTTI_BUSY) {
            *rank = growth->members + i;
            return status;
        }
    }
    return tti_error_set(error, TUTTI_RANK_TAKEN, "all %d newcomers that the group waits for have joined already",
                         growth->newcomers);
}

/* `own`: the settings of this process. The group's backend and lanes take their places. */
static tutti_status join_grown(const char *token, struct tti_settings *own, tutti_group **grown, tutti_error *error)
{
    struct tti_group_plan plan = {.operation = TUTTI_OP_JOIN};
    tti_formation_limit(&plan.watch, tti_setting_number(own, TTI_SET_TIMEOUT_MS));
    /* A member serves the store. If a newcomer served it, its end would end the store, and the members could not name
     * it. */
    tutti_status status = tti_store_open_served(token, plan.watch.timeout_ms, &plan.store, error);
    if (status != TUTTI_OK) {
        return status == TUTTI_TIMEOUT ? grow_timeout(&plan, error) : status;
    }
    struct growth growth;
    int32_t rank = -1;
    name_grown(&plan, token);
    if ((status = read_growth(&plan, &growth, error)) == TUTTI_OK &&
        (status = take_number(plan.store, &growth, &rank, error)) == TUTTI_OK) {
        const tutti_config found = {.size = sizeof(found), .backend = growth.backend, .lanes = growth.lanes};
        plan.local_rank = rank;
        status = tti_settings_resolve(&found, own, &plan.settings, error);
    }
    if (status == TUTTI_OK) {
        status = open_grown(&plan, &growth, rank, grown, error);
    }
    tti_settings_release(plan.settings);
    tti_store_release(plan.store);
    return status;
}

tutti_status tti_grow_join(const char *token, const tutti_config *config, tutti_group **grown, tutti_error *error)
{
    struct tti_settings *own;
    tutti_status status = tti_settings_resolve(config, NULL, &own, error);
    if (status == TUTTI_OK) {
        status = join_grown(token, own, grown, error);
        tti_settings_release(own);
    }
    return status;
}
