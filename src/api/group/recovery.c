/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti/recovery.h. */
#include <tutti/recovery.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/group/group.h"
#include "api/group/joining.h"
#include "base/error.h"
#include "core/call/call.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "core/group/plan.h"
#include "core/membership/grow.h"
#include "core/membership/recover.h"

tutti_status tutti_group_abort(tutti_group *group, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_abort", error, &status);
    if (!g) {
        return tti_api_finish(error, TUTTI_OP_ABORT, -1, status);
    }
    const int32_t rank = g->rank;
    status = tti_recover_abort(g, error);
    tti_group_release(g);
    return tti_api_finish(error, TUTTI_OP_ABORT, rank, status);
}

tutti_status tutti_group_revoke(tutti_group *group, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_revoke", error, &status);
    if (!g) {
        return tti_api_finish(error, TUTTI_OP_REVOKE, -1, status);
    }
    const int32_t rank = g->rank;
    if ((status = tti_recover_check(g, "group_revoke", error)) == TUTTI_OK) {
        tti_recover_revoke(g);
    }
    tti_group_release(g);
    return tti_api_finish(error, TUTTI_OP_REVOKE, rank, status);
}

/* The caller's buffers for a list of ranks. */
struct list {
    int32_t *ranks;
    int32_t capacity;
    int32_t *count;
};

static tutti_status check_list(const struct list *l, const char *function, tutti_error *error)
{
    return l->capacity >= 0 && (l->ranks || l->capacity == 0) && l->count
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "%s: the list of ranks needs a place for %d of them and one for their number", function,
                               l->capacity);
}

static void fill_list(const struct list *l, const struct tti_group *g, const uint64_t *set)
{
    int32_t count = 0;
    for (int32_t r = 0; r < g->size; r++) {
        if (set[r / 64] >> (r % 64) & 1) {
            if (count < l->capacity) {
                l->ranks[count] = r;
            }
            count++;
        }
    }
    *l->count = count;
}

/* The checks of every collective of recovery. 0 becomes the group's deadline. */
static tutti_status check_call(const struct tti_group *g, const char *function, int64_t *timeout_ms, tutti_error *error)
{
    if (*timeout_ms < TUTTI_FOREVER) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "%s: timeout_ms is %lld; it must be -1 (none), 0 (the group's) or positive", function,
                             (long long)*timeout_ms);
    }
    *timeout_ms = *timeout_ms == 0 ? g->timeout_ms : *timeout_ms;
    return !tti_in_callback(g)
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_WOULD_DEADLOCK, "%s: called from a callback of the same group", function);
}

/* The differences of the two functions that return a list of ranks. */
struct inquiry {
    const char *function;
    tutti_operation operation; /* AGREE, or NONE: this rank's knowledge only */
    uint64_t *flags;           /* of an agreement, and its time */
    int64_t timeout_ms;
};

static bool agrees(const struct inquiry *q)
{
    return q->operation == TUTTI_OP_AGREE;
}

static tutti_status check_agreement(const struct tti_group *g, struct inquiry *q, tutti_error *error)
{
    return q->flags
               ? check_call(g, q->function, &q->timeout_ms, error)
               : tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the pointer for the flags is NULL", q->function);
}

static tutti_status ask(struct tti_group *g, const struct inquiry *q, uint64_t *set, tutti_error *error)
{
    if (agrees(q)) {
        return tti_recover_agree(g, q->flags, set, q->timeout_ms, error);
    }
    tti_recover_lost(g, set);
    return TUTTI_OK;
}

static tutti_status inquire(tutti_group *group, struct inquiry *q, const struct list *list, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, q->function, error, &status);
    if (!g) {
        return tti_api_finish(error, q->operation, -1, status);
    }
    const int32_t rank = g->rank;
    uint64_t *set = calloc(tti_recover_words(g), sizeof(*set));
    if (!set) {
        status = tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for a list of %d ranks", q->function, g->size);
    } else if ((status = check_list(list, q->function, error)) == TUTTI_OK &&
               (!agrees(q) || (status = check_agreement(g, q, error)) == TUTTI_OK) &&
               (status = tti_recover_check(g, q->function, error)) == TUTTI_OK &&
               (status = ask(g, q, set, error)) == TUTTI_OK) {
        fill_list(list, g, set);
    }
    free(set);
    tti_group_release(g);
    return tti_api_finish(error, q->operation, rank, status);
}

tutti_status tutti_group_failed(tutti_group *group, int32_t *ranks, int32_t capacity, int32_t *count,
                                tutti_error *error)
{
    struct inquiry q = {.function = "group_failed", .operation = TUTTI_OP_NONE};
    return inquire(group, &q, &(struct list){ranks, capacity, count}, error);
}

tutti_status tutti_group_agree(tutti_group *group, uint64_t *flags, int32_t *failed, int32_t capacity, int32_t *count,
                               int64_t timeout_ms, tutti_error *error)
{
    struct inquiry q = {
        .function = "group_agree", .operation = TUTTI_OP_AGREE, .flags = flags, .timeout_ms = timeout_ms};
    return inquire(group, &q, &(struct list){failed, capacity, count}, error);
}

tutti_status tutti_group_shrink(tutti_group *group, int64_t timeout_ms, tutti_group **survivors, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_shrink", error, &status);
    if (!g) {
        return tti_api_finish(error, TUTTI_OP_SHRINK, -1, status);
    }
    const int32_t rank = g->rank;
    if (!survivors) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_shrink: the pointer for the group is NULL");
    } else if ((status = check_call(g, "group_shrink", &timeout_ms, error)) == TUTTI_OK &&
               (status = tti_recover_check(g, "group_shrink", error)) == TUTTI_OK) {
        status = tti_recover_shrink(g, timeout_ms, survivors, error);
    }
    tti_group_release(g);
    return tti_api_finish(error, TUTTI_OP_SHRINK, rank, status);
}

tutti_status tutti_group_token(tutti_group *group, char *token, size_t capacity, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_token", error, &status);
    if (!g) {
        return tti_api_finish(error, TUTTI_OP_GROW, -1, status);
    }
    const int32_t rank = g->rank;
    if (!token || capacity < TUTTI_TOKEN_BYTES) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_token: a token needs room for %d bytes, not %zu",
                               TUTTI_TOKEN_BYTES, token ? capacity : 0);
    } else if ((status = tti_grow_check(g, "group_token", error)) == TUTTI_OK) {
        status = tti_grow_token(g, token, capacity, error);
    }
    tti_group_release(g);
    return tti_api_finish(error, TUTTI_OP_GROW, rank, status);
}

static tutti_status check_growth(const struct tti_group *g, const char *token, int32_t newcomers, tutti_group **grown,
                                 tutti_error *error)
{
    if (!token || !*token || !grown) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_grow: %s is NULL or empty",
                             grown ? "the token" : "the pointer for the group");
    }
    if (newcomers < 1 || newcomers > TTI_GROUP_RANKS_MAX - g->size) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "group_grow: %d newcomers; there must be at least one, and at most %d ranks with them",
                             newcomers, TTI_GROUP_RANKS_MAX);
    }
    tutti_error cause;
    return tti_group_failure(g, &cause) == TUTTI_OK
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_REVOKED,
                               "group_grow: the group failed earlier: %.300s; let the survivors shrink it first",
                               cause.message);
}

tutti_status tutti_group_grow(tutti_group *group, const char *token, int32_t newcomers, int64_t timeout_ms,
                              tutti_group **grown, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_group *g = tti_api_hold(group, "group_grow", error, &status);
    if (!g) {
        return tti_api_finish(error, TUTTI_OP_GROW, -1, status);
    }
    const int32_t rank = g->rank;
    if ((status = check_call(g, "group_grow", &timeout_ms, error)) == TUTTI_OK &&
        (status = tti_grow_check(g, "group_grow", error)) == TUTTI_OK &&
        (status = check_growth(g, token, newcomers, grown, error)) == TUTTI_OK) {
        status = tti_grow(g, token, newcomers, timeout_ms, grown, error);
    }
    tti_group_release(g);
    return tti_api_finish(error, TUTTI_OP_GROW, rank, status);
}

tutti_status tutti_group_join(const char *token, const tutti_config *config, tutti_group **grown, tutti_error *error)
{
    tutti_status status = tti_api_check_config(config, error);
    if (status == TUTTI_OK && (!token || !*token || !grown)) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT, "group_join: %s is NULL or empty",
                               grown ? "the token" : "the pointer for the group");
    }
    if (status == TUTTI_OK && config &&
        (config->world_size > 0 || config->lanes != 0 || config->backend || config->store || config->store_callbacks ||
         config->native_communicator)) {
        status = tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "group_join: rank, world_size, lanes, backend and store come from the group; leave them "
                               "out of the configuration");
    }
    if (status == TUTTI_OK && !tti_joining_begin("group_join", error)) {
        status = TUTTI_BUSY;
    } else if (status == TUTTI_OK) {
        status = tti_grow_join(token, config, grown, error);
        tti_joining_end();
    }
    return tti_api_finish(error, TUTTI_OP_JOIN, -1, status);
}
