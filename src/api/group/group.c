/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti/group.h that begin and end groups. threads.c has tutti_run_threads. */
#include "api/group/group.h"

#include <tutti/group.h>

#include "api/group/joining.h"
#include "base/error.h"
#include "base/wait/retry.h"
#include "core/async/events.h"
#include "core/async/timer.h"
#include "core/call/call.h"
#include "core/call/lane.h"
#include "core/group/backend/registry.h"
#include "core/group/group.h"
#include "core/group/group_table.h"
#include "core/group/users.h"
#include "core/membership/join.h"
#include "core/membership/split.h"
#include "diag/flight.h"

tutti_status tti_api_finish(tutti_error *error, tutti_operation operation, int32_t rank, tutti_status status)
{
    if (status == TUTTI_OK) {
        tti_error_clear(error);
    }
    if (error) {
        error->operation = operation;
        error->rank = rank;
    }
    return status;
}

tutti_status tti_api_check_config(const tutti_config *config, tutti_error *error)
{
    if (!config) {
        return TUTTI_OK;
    }
    if (config->size != sizeof(*config)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "config.size is %u, this library knows %zu; use TUTTI_CONFIG or tutti_config_init",
                             config->size, sizeof(*config));
    }
    if (config->flags != 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "config.flags 0x%x has bits that are not defined",
                             config->flags);
    }
    if (config->world_size == 0 && config->rank != 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "config.rank is %d, but config.world_size is 0, so the rank comes from the environment; "
                             "set both, or neither",
                             config->rank);
    }
    if (config->world_size < 0 ||
        (config->world_size > 0 && (config->rank < 0 || config->rank >= config->world_size))) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "config.rank is %d of config.world_size %d", config->rank,
                             config->world_size);
    }
    if (config->store && config->store_callbacks) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "config.store and config.store_callbacks exclude each other");
    }
    return TUTTI_OK;
}

tutti_status tutti_init(const tutti_config *config, tutti_group **group, tutti_error *error)
{
    if (!group) {
        return tti_api_finish(error, TUTTI_OP_INIT, -1,
                              tti_error_set(error, TUTTI_INVALID_ARGUMENT, "init: the pointer for the group is NULL"));
    }
    tutti_status status = tti_api_check_config(config, error);
    if (status == TUTTI_OK && !tti_joining_begin("init", error)) {
        status = TUTTI_BUSY;
    } else if (status == TUTTI_OK) {
        status = tti_join_world(config, group, error);
        tti_joining_end();
    }
    return tti_api_finish(error, TUTTI_OP_INIT, -1, status);
}

struct tti_group *tti_api_hold(tutti_group *handle, const char *function, tutti_error *error, tutti_status *status)
{
    struct tti_group *g = tti_group_acquire(handle, status);
    if (!g) {
        tti_handle_error(error, *status, function, "group", TTI_KIND_GROUP);
    }
    return g;
}

static bool stands_before(const int32_t *ranks, int32_t at)
{
    int32_t i = 0;
    while (i < at && ranks[i] != ranks[at]) {
        i++;
    }
    return i < at;
}

/* Checks every entry, and finds the caller's place. It allocates no memory: after a failure here the other ranks would
 * wait until their deadline. */
static tutti_status check_list(const struct tti_group *parent, const int32_t *ranks, int32_t count, int32_t *own,
                               tutti_error *error)
{
    if (!ranks || count <= 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_create: the list of ranks is empty");
    }
    tutti_status status = TUTTI_OK;
    *own = -1;
    for (int32_t i = 0; i < count && status == TUTTI_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size) {
            status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                   "group_create: ranks[%d] is %d, the parent group has ranks 0 to %d", i, ranks[i],
                                   parent->size - 1);
        } else if (stands_before(ranks, i)) {
            status =
                tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_create: rank %d is in the list twice", ranks[i]);
        } else if (ranks[i] == parent->rank) {
            *own = i;
        }
    }
    if (status == TUTTI_OK && *own < 0) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "group_create: the calling rank %d is not in the list; only members call", parent->rank);
    }
    return status;
}

/* A sub-group has its parent's rank, size and store: a configuration may set the other fields only. */
static tutti_status check_child(const struct tti_group *parent, const tutti_config *config, const char *function,
                                tutti_error *error)
{
    if (tti_in_callback(parent)) {
        return tti_error_set(error, TUTTI_WOULD_DEADLOCK, "%s: called from a callback of the same group", function);
    }
    tutti_status status = tti_api_check_config(config, error);
    if (status == TUTTI_OK && config && (config->world_size > 0 || config->store || config->store_callbacks)) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "%s: rank, world_size and store come from the parent group; leave them out", function);
    }
    return status;
}

tutti_status tutti_group_create(tutti_group *parent, const int32_t *ranks, int32_t count, const tutti_config *config,
                                tutti_group **group, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *p = tti_api_hold(parent, "group_create", error, &status);
    if (!p) {
        return tti_api_finish(error, TUTTI_OP_CREATE, -1, status);
    }
    int32_t own = -1;
    if (!group) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_create: the pointer for the group is NULL");
    } else if ((status = check_child(p, config, "group_create", error)) == TUTTI_OK &&
               (status = check_list(p, ranks, count, &own, error)) == TUTTI_OK) {
        status = tti_join_list(p, ranks, count, own, config, group, error);
    }
    int32_t rank = p->rank;
    tti_group_release(p);
    return tti_api_finish(error, TUTTI_OP_CREATE, rank, status);
}

tutti_status tutti_group_split(tutti_group *parent, int32_t color, int32_t key, const tutti_config *config,
                               tutti_group **group, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *p = tti_api_hold(parent, "group_split", error, &status);
    if (!p) {
        return tti_api_finish(error, TUTTI_OP_SPLIT, -1, status);
    }
    if (!group) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_split: the pointer for the group is NULL");
    } else if (color < -1) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "group_split: the colour is %d; it must be -1 (no group) or at least 0", color);
    } else if ((status = check_child(p, config, "group_split", error)) == TUTTI_OK) {
        status = tti_join_split(p, color, key, config, group, error);
    }
    int32_t rank = p->rank;
    tti_group_release(p);
    return tti_api_finish(error, TUTTI_OP_SPLIT, rank, status);
}

/* The thread that has run an operation leaves the lane before it counts it as ended (end_work in lane.c). A call behind
 * the operation may return before that. */
#define ENDING_MS 100

static bool is_aborted(const struct tti_group *g)
{
    /* acquire: pairs with tti_recover_abort */
    return atomic_load_explicit(&g->recovery.aborts, memory_order_acquire) != 0;
}

/* After an abort every operation ends at once, also one that no thread awaits, if a thread runs it. */
static void run_aborted(struct tti_group *g)
{
    for (int32_t lane = 0; is_aborted(g) && lane < g->lanes; lane++) {
        tti_lane_queue_push(&g->lane_queues[lane]);
    }
}

/* Until when to wait for the users of a group, from begun_ns on. In idle lanes all operations are about to end. After
 * an abort running calls and the operations of the library return soon. */
static int64_t users_deadline_ns(struct tti_group *g, int64_t begun_ns)
{
    bool idle = true;
    for (int32_t lane = 0; lane < g->lanes; lane++) {
        idle = idle && tti_lane_queue_is_idle(&g->lane_queues[lane]);
    }
    int64_t wait_ms = idle ? ENDING_MS : 0;
    if (is_aborted(g)) {
        const struct tti_group_users users = tti_group_users(g);
        wait_ms = users.calls + users.works > users.of_application ? g->timeout_ms : ENDING_MS;
    }
    return tti_deadline_ns(begun_ns, tti_in_callback(g) ? 0 : wait_ms);
}

tutti_status tutti_group_destroy(tutti_group *group, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_destroy", error, &status);
    const int32_t rank = g ? g->rank : -1;
    const int64_t begun = tti_now_ns();
    int pause = 0;
    while (g) {
        const int64_t until = users_deadline_ns(g, begun);
        run_aborted(g);
        if ((status = tti_group_end(g)) == TUTTI_OK) {
            break;
        }
        const bool again = tti_retry_sleep(&pause, until);
        g = tti_api_hold(group, "group_destroy", error, &status);
        if (g && !again) {
            const struct tti_group_users users = tti_group_users(g);
            status = tti_group_error_busy(g, &users, "group_destroy", error);
            tti_group_release(g);
            break;
        }
    }
    return tti_api_finish(error, TUTTI_OP_DESTROY, rank, status);
}

/* The state of tutti_finalize, while it checks and while it destroys. */
struct ending {
    tutti_status status;
    tutti_error *error;
};

/* Events objects end with their group; any other use of the group is BUSY. */
static void check_idle(void *handle, void *user)
{
    struct ending *ending = user;
    tutti_status why;
    struct tti_group *g = ending->status == TUTTI_OK ? tti_group_acquire(handle, &why) : NULL;
    if (!g) {
        return;
    }
    const int64_t begun = tti_now_ns();
    struct tti_group_users users;
    int pause = 0;
    do {
        run_aborted(g);
        users = tti_group_users(g);
    } while (users.works + users.calls > 0 && tti_retry_sleep(&pause, users_deadline_ns(g, begun)));
    if (users.works + users.calls > 0) {
        users.objects = 0;
        ending->status = tti_group_error_busy(g, &users, "finalize", ending->error);
    }
    tti_group_release(g);
}

static void destroy_idle(void *handle, void *user)
{
    struct ending *ending = user;
    tutti_error error;
    if (tutti_group_destroy(handle, &error) == TUTTI_BUSY && ending->status == TUTTI_OK) {
        ending->status = tti_error_set(ending->error, TUTTI_BUSY, "finalize: %s", error.message);
    }
}

/* BUSY, without a change, unless another thread enters a call meanwhile. */
static tutti_status destroy_all(tutti_error *error)
{
    struct ending ending = {.status = TUTTI_OK, .error = error};
    tti_handles_each(&tti_groups, check_idle, &ending);
    if (ending.status == TUTTI_OK && tti_events_in_use()) {
        ending.status = tti_error_set(error, TUTTI_BUSY,
                                      "finalize: another thread is inside a call on an events object: call again after "
                                      "that has returned");
    }
    if (ending.status == TUTTI_OK) {
        tti_events_destroy_all();
        tti_handles_each(&tti_groups, destroy_idle, &ending);
    }
    return ending.status;
}

tutti_status tutti_finalize(tutti_error *error)
{
    if (!tti_joining_exclude()) {
        return tti_error_set(error, TUTTI_BUSY,
                             "finalize: another thread is inside tutti_init, tutti_group_join or tutti_finalize: call "
                             "again after that has returned");
    }
    const tutti_status status = destroy_all(error);
    if (status == TUTTI_OK) {
        tti_registry_stop(); /* a rendezvous server of this process runs until its clients have left */
    }
    tti_joining_allow();
    if (status != TUTTI_OK) {
        return status;
    }
    tti_timer_shutdown(); /* not before: it waits for callbacks, which may join */
    tti_flight_finish();
    return tti_error_clear(error);
}
