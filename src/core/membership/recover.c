/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shrinking, as MPI_Comm_shrink of ULFM: the survivors agree in the engine of the old group (agreement.c) on the set of
 * members and on a random token. The old group's store cannot serve for the rest: its server may be the dead rank. So
 * the survivors open a store that the token names, which the first of them serves, and form the new group there. Then
 * they agree in a second round whether all of them have it. If a rank has died or was too slow, all drop the group and
 * begin again with a new agreement, without that rank.
 *
 * So the rounds alternate: members, confirmation, members, ... An abort may take a rank out between a members' round
 * and its confirmation. Such a rank begins its next shrink with that confirmation.
 *
 * Time: each step gets half of the rest, so that another attempt has time left. Cost: two agreements and the opening of
 * a group.
 */
#include "core/membership/recover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/backend/engines.h"
#include "core/group/group.h"
#include "core/group/group_table.h"
#include "core/membership/formation_watch.h"

enum { AGREEMENTS = 0, SHRINKS = 1 }; /* series */

/* How long to wait for a store that does not answer: a slow server must not be taken for a stopped one. */
enum { STORE_TIMEOUT_LEAST_MS = 100, STORE_TIMEOUT_MOST_MS = 1000 };

/* Flags of a confirmation. They are ANDed. A rank that could not open the group clears OPENED and the bit of its
 * status, so the others learn the status. */
#define OPENED         UINT64_C(1)
#define WORTH_IT       UINT64_C(2) /* another attempt: the cause was a rank that is lost or late */
#define FINE(status)   (UINT64_C(4) << (status))
#define STATUSES_BEGIN TUTTI_INVALID_ARGUMENT
#define STATUSES_END   (TUTTI_REVOKED + 1)

struct shrink {
    struct tti_group *g;
    int64_t deadline_ns;
    uint32_t aborts; /* before it began */
    uint64_t token[2];
    uint64_t *absent; /* the last agreement's */
    uint64_t *lost;
    int32_t *ranks; /* of the members, in their order */
    int32_t count;
    int32_t own;
};

static bool has(const uint64_t *ranks, int32_t rank)
{
    return (ranks[rank / 64] >> (rank % 64) & 1) != 0;
}

static bool is_able(const struct tti_group *g)
{
    const tutti_backend_ops *ops = g->backend->ops;
    return (tti_group_capabilities(g) & TUTTI_CAP_RECOVER) && ops->revoke && ops->lost && ops->agree &&
           (!g->host_backend || g->host_backend == g->backend);
}

tutti_status tti_recover_check(const struct tti_group *g, const char *function, tutti_error *error)
{
    return is_able(g) ? TUTTI_OK
                      : tti_error_set(error, TUTTI_UNSUPPORTED,
                                      "%s: backend %s cannot go on without ranks that are lost; destroy the group and "
                                      "start the job again",
                                      function, g->backend->name);
}

void tti_recover_revoke(struct tti_group *g)
{
    g->backend->ops->revoke(g->state, TUTTI_OP_REVOKE);
}

tutti_status tti_recover_abort(struct tti_group *g, tutti_error *error)
{
    const bool able = is_able(g);
    if (!able && !g->backend->ops->abort) {
        return tti_error_set(error, TUTTI_UNSUPPORTED, "group_abort: backend %s cannot end what waits in it",
                             g->backend->name);
    }
    /* release: pairs with the acquire in aborts_of, and in is_aborted of api/group/group.c */
    atomic_fetch_add_explicit(&g->recovery.aborts, 1, memory_order_release);
    if (able) {
        g->backend->ops->revoke(g->state, TUTTI_OP_ABORT);
    } else {
        tutti_error cause;
        tti_error_set(&cause, TUTTI_REVOKED, "rank %d has aborted the group", g->rank);
        cause.scope = TUTTI_SCOPE_GROUP;
        tti_group_abort(g, TUTTI_LANE_NONE, &cause);
    }
    return TUTTI_OK;
}

void tti_recover_lost(struct tti_group *g, uint64_t *ranks)
{
    g->backend->ops->lost(g->state, ranks);
}

static tutti_status is_busy(const char *function, tutti_error *error)
{
    return tti_error_set(error, TUTTI_BUSY, "%s: another thread of this rank is in it already", function);
}

static uint32_t aborts_of(const struct tti_group *g)
{
    return atomic_load_explicit(&g->recovery.aborts, memory_order_acquire);
}

/* The ranks that a shrink has gone on without: no agreement waits for them. */
static void copy_out(struct tti_group *g, uint64_t *ranks)
{
    const size_t bytes = tti_recover_words(g) * sizeof(*ranks);
    pthread_mutex_lock(&g->names_lock);
    if (g->recovery.out) {
        memcpy(ranks, g->recovery.out, bytes);
    } else {
        memset(ranks, 0, bytes);
    }
    pthread_mutex_unlock(&g->names_lock);
}

tutti_status tti_recover_agree(struct tti_group *g, uint64_t *flags, uint64_t *failed, int64_t timeout_ms,
                               tutti_error *error)
{
    if (atomic_exchange_explicit(&g->recovery.agreeing, true, memory_order_acquire)) {
        return is_busy("group_agree", error);
    }
    copy_out(g, failed);
    tutti_agreement a = {.size = sizeof(a),
                         .series = AGREEMENTS,
                         .late = TUTTI_LATE_IS_ERROR,
                         .aborts = aborts_of(g),
                         .timeout_ms = timeout_ms,
                         .flags = *flags,
                         .absent = failed};
    tutti_status status = g->backend->ops->agree(g->state, &a, error);
    atomic_store_explicit(&g->recovery.agreeing, false, memory_order_release);
    if (status == TUTTI_OK) {
        *flags = a.flags;
    }
    return status;
}

/* ---- shrink ------------------------------------------------------------------------------------------------------ */

static int64_t half_of_rest(const struct shrink *s)
{
    const int64_t left = tti_remaining_ms(s->deadline_ns);
    return left < 0 ? TUTTI_FOREVER : left / 2 + 1;
}

static tutti_status poll_abort(void *user, tutti_error *error)
{
    const struct shrink *s = user;
    return aborts_of(s->g) == s->aborts
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_REVOKED, "another thread of this rank has aborted the group");
}

/* Whether a member is lost, as the old group knows. */
static bool has_lost(struct shrink *s)
{
    tti_recover_lost(s->g, s->lost);
    for (int32_t i = 0; i < s->count; i++) {
        if (has(s->lost, s->ranks[i])) {
            return true;
        }
    }
    return false;
}

/* Agrees on the members and on the token of their store. */
static tutti_status find_members(struct shrink *s, tutti_error *error)
{
    struct tti_group *g = s->g;
    tutti_agreement a = {.size = sizeof(a),
                         .series = SHRINKS,
                         .late = TUTTI_LATE_IS_OUT,
                         .aborts = s->aborts,
                         .timeout_ms = half_of_rest(s),
                         .absent = s->absent};
    if (getrandom(a.token, sizeof(a.token), 0) != sizeof(a.token)) {
        return tti_error_system(error, errno, "no random name for the store of the survivors");
    }
    copy_out(g, s->absent);
    tutti_status status = g->backend->ops->agree(g->state, &a, error);
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&g->names_lock);
    memcpy(g->recovery.out, s->absent, tti_recover_words(g) * sizeof(*s->absent));
    pthread_mutex_unlock(&g->names_lock);
    g->recovery.unconfirmed = true;
    memcpy(s->token, a.token, sizeof(s->token));
    s->count = 0;
    for (int32_t r = 0; r < g->size; r++) {
        if (!has(s->absent, r)) {
            s->own = r == g->rank ? s->count : s->own;
            s->ranks[s->count++] = r;
        }
    }
    return TUTTI_OK;
}

static tutti_status open_store(const struct shrink *s, struct tti_store **store, tutti_error *error)
{
    char url[TTI_STORE_LOCAL_URL];
    if (s->g->backend->capabilities & TUTTI_CAP_ONE_PROCESS) {
        snprintf(url, sizeof(url), "memory:shrink-%016llx%016llx", (unsigned long long)s->token[0],
                 (unsigned long long)s->token[1]);
    } else {
        tti_store_local_url(s->g->socket_directory, "shrink", s->token, url);
    }
    const int64_t store_timeout_ms = half_of_rest(s);
    tutti_status status = tti_store_open(url, true, store_timeout_ms, store, error);
    if (status == TUTTI_OK &&
        store_timeout_ms >= 0) { /* its server may be stopped: the wait must end in time to poll for failures */
        tti_store_set_response_timeout(*store, store_timeout_ms < STORE_TIMEOUT_LEAST_MS  ? STORE_TIMEOUT_LEAST_MS
                                               : store_timeout_ms > STORE_TIMEOUT_MOST_MS ? STORE_TIMEOUT_MOST_MS
                                                                                          : store_timeout_ms);
    }
    return status;
}

static tutti_status open_group(struct shrink *s, tutti_group **group, tutti_error *error)
{
    struct tti_group *g = s->g;
    struct tti_group_plan plan = {
        .rank = s->own,
        .size = s->count,
        .local_rank = g->local_rank,
        .operation = TUTTI_OP_SHRINK,
        .parent = g,
        .watch = {.parent = g, .ranks = s->ranks, .count = s->count, .poll = poll_abort, .poll_user = s}};
    const tutti_config config = {.size = sizeof(config), .backend = tti_group_on_device(g) ? NULL : g->backend->name};
    tti_formation_limit(&plan.watch, half_of_rest(s));
    /* the same on all survivors, and unique: flight records name groups by it */
    snprintf(plan.name, sizeof(plan.name), "survivors-%08x", (unsigned)(uint32_t)s->token[0]);
    tutti_status status = tti_settings_resolve(&config, g->settings, &plan.settings, error);
    if (status == TUTTI_OK && (status = open_store(s, &plan.store, error)) == TUTTI_OK) {
        status = tti_group_open(&plan, group, error);
        tti_store_release(plan.store);
    }
    tti_settings_release(plan.settings);
    return status;
}

/* Whether another attempt may succeed: a rank was lost or late, or has aborted. */
static bool is_worth_it(struct shrink *s, tutti_status status)
{
    tutti_error unused;
    return tti_is_loss(status) || status == TUTTI_REVOKED || has_lost(s) || poll_abort(s, &unused) != TUTTI_OK;
}

static uint64_t flags_of(struct shrink *s, tutti_status opened)
{
    if (opened == TUTTI_OK) {
        return UINT64_MAX;
    }
    return ~(OPENED | FINE(opened) | (is_worth_it(s, opened) ? 0 : WORTH_IT));
}

/* The status of a rank that has failed; of several ones the lowest, which another attempt would not mend. */
static tutti_status failure_in(uint64_t flags)
{
    for (tutti_status status = STATUSES_BEGIN; status < STATUSES_END; status++) {
        if (!(flags & FINE(status))) {
            return status;
        }
    }
    return TUTTI_TIMEOUT; /* no rank has failed: one has not arrived */
}

/* Agrees whether all ranks have the new group: the same answer on all of them. */
static tutti_status confirm(struct shrink *s, uint64_t *flags, tutti_error *error)
{
    struct tti_group *g = s->g;
    tutti_agreement a = {.size = sizeof(a),
                         .series = SHRINKS,
                         .late = TUTTI_LATE_IS_ABSENT,
                         .aborts = s->aborts,
                         .timeout_ms = half_of_rest(s),
                         .flags = *flags,
                         .absent = s->absent};
    copy_out(g, s->absent);
    tutti_status status = g->backend->ops->agree(g->state, &a, error);
    if (status != TUTTI_OK) {
        return status;
    }
    g->recovery.unconfirmed = false;
    const size_t words = tti_recover_words(g);
    *flags = memcmp(s->absent, g->recovery.out, words * sizeof(*s->absent)) == 0 ? a.flags : a.flags & ~OPENED;
    return TUTTI_OK;
}

static void drop(tutti_group *handle)
{
    tutti_status why;
    struct tti_group *g = tti_group_acquire(handle, &why);
    if (g) {
        tti_group_end(g);
    }
}

/* The group was open here, but not on all ranks: finds the suspect. */
static tutti_status report_cause(const struct shrink *s, uint64_t flags, tutti_error *error)
{
    const struct tti_group *g = s->g;
    for (int32_t r = 0; r < g->size; r++) {
        if (has(s->absent, r) && !has(g->recovery.out, r)) {
            tti_error_set(error, TUTTI_TIMEOUT, "rank %d was lost or late before all had the new group", r);
            error->suspect = r;
            return TUTTI_TIMEOUT;
        }
    }
    const tutti_status status = failure_in(flags);
    return tti_error_set(error, status, "another rank could not open the new group (%s); its own error says why",
                         tutti_status_string(status));
}

/* One attempt. BUSY: another one may succeed; *error has the cause of this failure. */
static tutti_status attempt(struct shrink *s, tutti_group **survivors, tutti_error *error)
{
    tutti_group *group = NULL;
    tutti_error second;
    tutti_status status = find_members(s, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const tutti_status opened = open_group(s, &group, error);
    uint64_t flags = flags_of(s, opened);
    status = confirm(s, &flags, &second);
    if (status == TUTTI_OK && (flags & OPENED)) {
        *survivors = group;
        return TUTTI_OK;
    }
    if (group) {
        drop(group);
    }
    if (status != TUTTI_OK) {
        *error = second;
        return status;
    }
    status = opened == TUTTI_OK ? report_cause(s, flags, error) : opened;
    return flags & WORTH_IT ? TUTTI_BUSY : status;
}

/* For a rank that an abort has taken out of a confirmation. If the others have confirmed a group with this rank as a
 * member, this rank must not form another group: there would be two. */
static tutti_status catch_up(struct shrink *s, tutti_error *error)
{
    struct tti_recovery *recovery = &s->g->recovery;
    uint64_t flags = ~OPENED;
    if (recovery->unconfirmed) {
        const tutti_status status = confirm(s, &flags, error);
        if (status != TUTTI_OK) {
            return status;
        }
        recovery->missed = (flags & OPENED) != 0;
    }
    if (!recovery->missed) {
        return TUTTI_OK;
    }
    tti_error_set(error, TUTTI_REVOKED,
                  "the other ranks have made their group while this one aborted: destroy the group, and join them as "
                  "a new rank");
    error->scope = TUTTI_SCOPE_GROUP;
    return TUTTI_REVOKED;
}

static tutti_status run(struct shrink *s, tutti_group **survivors, tutti_error *error)
{
    const size_t words = tti_recover_words(s->g);
    int attempts = 0;
    if (!s->g->recovery.out) {
        uint64_t *out = calloc(words, sizeof(*out));
        pthread_mutex_lock(&s->g->names_lock);
        s->g->recovery.out = out;
        pthread_mutex_unlock(&s->g->names_lock);
    }
    if (!s->absent || !s->lost || !s->ranks || !s->g->recovery.out) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory to shrink a group of %d ranks", s->g->size);
    }
    tti_recover_revoke(s->g);
    tutti_status status = catch_up(s, error);
    if (status == TUTTI_OK) {
        do {
            status = attempt(s, survivors, error);
            attempts++;
        } while (status == TUTTI_BUSY && tti_remaining_ms(s->deadline_ns) != 0);
    }
    if (status == TUTTI_BUSY) {
        const tutti_error last = *error;
        status =
            tti_error_set(error, TUTTI_TIMEOUT,
                          "group_shrink: the deadline passed after %d attempt%s, the last of which failed: %.300s; "
                          "call it again",
                          attempts, attempts == 1 ? "" : "s", last.message);
        error->suspect = last.suspect;
    }
    return status;
}

tutti_status tti_recover_shrink(struct tti_group *g, int64_t timeout_ms, tutti_group **survivors, tutti_error *error)
{
    if (atomic_exchange_explicit(&g->recovery.shrinking, true, memory_order_acquire)) {
        return is_busy("group_shrink", error);
    }
    const size_t words = tti_recover_words(g);
    tutti_error own;
    struct shrink s = {.g = g,
                       .deadline_ns = tti_deadline_ns(tti_now_ns(), timeout_ms),
                       .aborts = aborts_of(g),
                       .absent = calloc(words, sizeof(uint64_t)),
                       .lost = calloc(words, sizeof(uint64_t)),
                       .ranks = calloc((size_t)g->size, sizeof(int32_t))};
    tutti_status status = run(&s, survivors, error ? error : &own);
    free(s.absent);
    free(s.lost);
    free(s.ranks);
    atomic_store_explicit(&g->recovery.shrinking, false, memory_order_release);
    return status;
}
