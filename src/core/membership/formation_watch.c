/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that forms a group waits for the other members, one after the other and in several steps: for their records,
 * their entries, the descriptors of their engines. All these waits run in slices (base/wait/polled_wait.h), and after
 * each slice the rank polls here for a cause that ends the wait:
 *
 * - A rank has aborted. It writes its cause under `record_key`/failed; the first cause wins. So all ranks get the same
 *   cause, also new members, which cannot observe it, and ranks that poll after the rank that observed it has left or
 *   ended.
 * - A member has died, or the engines of the new group have failed. Exception: the lost member has put its last record
 *   already. Then the group is complete, and its first call reports the loss.
 * - The process of a member ended on this machine before its last record. This is for members that no group watches. It
 *   takes some system calls for each, so it is checked every 100 ms, and not in the first 100 ms of a wait. A rank
 *   checks the next few members behind itself, and those after them the next time. So each member is checked by some
 *   ranks each time, however many there are, and these report its end to all.
 * - A member has left its old group without its last record. A member with its last record may leave at once, while
 *   others still wait. So the poll reads the departure first and the record second: the record is put before the
 *   departure. If it is missing after the departure, it is never put, and no rank gets the group.
 * - The store has ended, together with the member that served it.
 * - The store is served here, and has refused a process without free descriptors or memory: that process does not
 *   connect again.
 *
 * Cost: one request to the store for each poll, and one for each member that has left. With many members a rank polls
 * less often, so that together they make some thousand requests in a second at most.
 */
#include "core/membership/formation_watch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/polled_wait.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "core/group/records/hello.h"
#include "core/membership/same_host.h"

#define STORE_SILENT_NS INT64_C(1000000000)
#define PROCESSES_NS    INT64_C(100000000) /* between two polls of the members' processes */
#define PROCESSES       16                 /* in one poll */
#define RECORDS_NS      INT64_C(200000000) /* to read the records, after another rank has aborted because of one */

static int32_t rank_of(const struct tti_formation_watch *w, int32_t member)
{
    return w->ranks ? w->ranks[member] : member;
}

/* Whether the store is that of the group that the members come from. */
static bool is_shared(const struct tti_formation_watch *w)
{
    return w->parent && w->parent->rendezvous.store == w->rendezvous->store;
}

void tti_formation_limit(struct tti_formation_watch *w, int64_t timeout_ms)
{
    w->deadline_ns = tti_deadline_ns(tti_now_ns(), timeout_ms);
    w->timeout_ms = timeout_ms;
}

void tti_formation_begin(struct tti_formation_watch *w, struct tti_rendezvous *rendezvous, int32_t size,
                         const char *record_key)
{
    w->rendezvous = rendezvous;
    w->size = size;
    w->server = -1;
    w->polled_ns = tti_now_ns();
    snprintf(w->record_key, sizeof(w->record_key), "%s", record_key);
    for (int32_t i = 0; w->parent && i < w->count; i++) {
        /* served_by is about the store of the old group */
        const bool serves = w->parent->global_ranks[rank_of(w, i)] == w->parent->served_by;
        w->server = serves && is_shared(w) ? i : w->server;
    }
    w->refused_before = is_shared(w) ? tti_store_refused_count(rendezvous->store) : 0;
    rendezvous->poll_failures = tti_formation_poll;
    rendezvous->poll_user = w;
    /* members without a common group get time to find a bad record themselves before they read of another rank's
     * abort */
    const int64_t least_ms = w->parent ? TTI_POLL_MIN_MS : TTI_POLL_EAGER_MS;
    rendezvous->poll_interval_ms = size == INT32_MAX ? least_ms : tti_poll_interval_ms(least_ms, size);
}

/* ---- outcome records --------------------------------------------------------------------------------------------- */

void tti_outcome_fill(struct tti_outcome *o, int32_t rank, const char *backend, tutti_status status,
                      const tutti_error *error)
{
    *o = (struct tti_outcome){.status = status, .rank = rank, .suspect = -1};
    if (status != TUTTI_OK) {
        o->suspect = error->suspect;
        snprintf(o->backend, sizeof(o->backend), "%s", backend);
        snprintf(o->message, sizeof(o->message), "%.*s", (int)sizeof(o->message) - 1, error->message);
    }
}

/* A loss, and a failure with another suspect, are the same for all ranks. Every other failure is that of the rank
 * itself. */
tutti_status tti_outcome_read(struct tti_outcome *o, int32_t size, tutti_error *error)
{
    if (o->status == TUTTI_OK) {
        return TUTTI_OK;
    }
    const tutti_status status = tti_status_of_peer(o->status);
    o->backend[sizeof(o->backend) - 1] = '\0';
    o->message[sizeof(o->message) - 1] = '\0';
    const bool names_other_suspect = o->suspect >= 0 && o->suspect < size && o->suspect != o->rank;
    if (tti_is_loss(status)) {
        tti_error_set(error, status, "%s (rank %d has aborted)", o->message, o->rank);
    } else if (names_other_suspect) {
        tti_error_set(error, status, "%s", o->message);
    } else if (o->backend[0]) {
        tti_error_set(error, status, "rank %d could not open backend %s: %s", o->rank, o->backend, o->message);
    } else {
        tti_error_set(error, status, "rank %d cannot take part: %s", o->rank, o->message);
    }
    error->suspect = names_other_suspect ? o->suspect : tti_is_loss(status) ? -1 : o->rank;
    return status;
}

/* Reads `record_key`/`name`. TIMEOUT: it is not there; PEER_LEFT: the store has ended. */
static tutti_status find(const struct tti_formation_watch *w, const char *name, struct tti_outcome *record,
                         size_t *length, tutti_error *error)
{
    const tutti_rendezvous *rv = &w->rendezvous->table;
    char key[40];
    snprintf(key, sizeof(key), "%s/%s", w->record_key, name);
    return rv->get(rv->self, key, record, sizeof(*record), length, 0, error);
}

void tti_formation_abort(const struct tti_formation_watch *w, const struct tti_outcome *outcome)
{
    const tutti_rendezvous *rv = &w->rendezvous->table;
    char key[40];
    snprintf(key, sizeof(key), "%s/failed", w->record_key);
    const tutti_status reported = rv->set(rv->self, key, outcome, sizeof(*outcome), NULL);
    if (tti_is_resource_error(reported) &&
        !is_shared(w)) { /* the server had no memory for the record: it replies the status to all requests instead */
        tti_store_fail(w->rendezvous->store, reported);
    }
}

/* ---- polling ----------------------------------------------------------------------------------------------------- */

/* Each rank finds a bad record itself, with a better sentence than the bad rank's own abort. So that abort counts only
 * if this rank still waits for records RECORDS_NS later. */
static bool finds_itself(struct tti_formation_watch *w, const struct tti_outcome *reported, const tutti_error *error)
{
    if (!w->accepting || tti_is_loss(error->status) || error->suspect == reported->rank) {
        return false;
    }
    const int64_t now = tti_now_ns();
    w->reported_ns = w->reported_ns == 0 ? now : w->reported_ns;
    return now - w->reported_ns < RECORDS_NS;
}

/* What the record of a rank that has aborted shows. */
struct reason {
    bool store_ended; /* nothing: the store has ended */
    bool waits;       /* a cause that does not count yet: see finds_itself */
};

static tutti_status read_reason(struct tti_formation_watch *w, struct reason *r, tutti_error *error)
{
    struct tti_outcome o;
    size_t length = 0;
    const tutti_status status = find(w, "failed", &o, &length, error);
    *r = (struct reason){.store_ended = status == TUTTI_PEER_LEFT};
    if (tti_is_resource_error(status)) { /* a rank has aborted, but the server had no memory for its record */
        return status;
    }
    const bool reported = status == TUTTI_OK && length == sizeof(o) && o.rank >= 0 && o.rank < w->size;
    const tutti_status reason = reported ? tti_outcome_read(&o, w->size, error) : TUTTI_OK;
    r->waits = reason != TUTTI_OK && finds_itself(w, &o, error);
    return r->waits ? TUTTI_OK : reason;
}

bool tti_formation_has_offered(const struct tti_formation_watch *w, int32_t member)
{
    return w->has_offered && w->has_offered(w->offers, member);
}

/* Whether the member's last record is missing, after its departure was seen. A store that answers after STORE_SILENT_NS
 * only counts as if it had the record. */
static bool is_record_missing(const struct tti_formation_watch *w, int32_t member)
{
    struct tti_outcome unused;
    size_t length = 0;
    char name[16];
    if (tti_formation_has_offered(w, member)) {
        return false;
    }
    const int64_t asked_ns = tti_now_ns();
    snprintf(name, sizeof(name), "%d", member);
    return find(w, name, &unused, &length, NULL) == TUTTI_TIMEOUT && tti_now_ns() - asked_ns < STORE_SILENT_NS;
}

/* The failure of the engines of the new group, once they are open. */
static tutti_status poll_engines(const struct tti_formation_watch *w, tutti_error *error)
{
    const tutti_status status = w->open ? tti_group_failure(w->open, error) : TUTTI_OK;
    const int32_t lost = tti_is_loss(status) ? error->suspect : -1;
    return lost >= 0 && lost < w->size && !is_record_missing(w, lost) ? TUTTI_OK : status;
}

static tutti_status member_status(const struct tti_formation_watch *w, int32_t member, tutti_error *error)
{
    tutti_error why;
    const tutti_status status =
        w->parent && member < w->count ? tti_group_peer_status(w->parent, rank_of(w, member), &why) : TUTTI_OK;
    if (status != TUTTI_OK) {
        tti_error_set(error, status, "rank %d does not join: %s%s%s", member, w->ranks ? "in the parent, " : "",
                      why.message, status == TUTTI_PEER_LEFT ? " while a new group was being made of it" : "");
        error->suspect = member;
    }
    return status;
}

/* A death comes first. */
static tutti_status poll_losses(const struct tti_formation_watch *w, tutti_error *error)
{
    tutti_status found = TUTTI_OK;
    for (int32_t i = 0; i < w->count; i++) {
        tutti_error one;
        const tutti_status status = member_status(w, i, &one);
        const bool departure = status == TUTTI_PEER_LEFT;
        if (status != TUTTI_OK && !(departure && (found != TUTTI_OK || !is_record_missing(w, i)))) {
            *error = one;
            found = status;
        }
        if (status != TUTTI_OK && !departure) {
            break;
        }
    }
    return found;
}

/* The end of a member's process, if it runs on this machine, its record is known, and no group watches it. The
 * group's record is more precise: the end of a process does not show whether the rank left in good order. */
static tutti_status process_status(const struct tti_formation_watch *w, int32_t member, tutti_error *error)
{
    const bool known = w->parent && member < w->count;
    const struct tti_hello *own = w->hellos ? &w->hellos[w->self] : NULL;
    const struct tti_hello *theirs = w->hellos && !known && member < w->size ? &w->hellos[member] : NULL;
    if (!own || !theirs || !tti_same_host_share_kernel(own, theirs) ||
        own->process.instance == theirs->process.instance) {
        return TUTTI_OK;
    }
    const struct tti_proc process = tti_proc_query(&theirs->process);
    if (!tti_proc_has_ended(process.state)) {
        return TUTTI_OK;
    }
    char end[160];
    const tutti_status status = tti_proc_describe_end(member, &theirs->process, &process, end, sizeof(end));
    tti_error_set(error, status, "%s before it had the group", end);
    error->suspect = member;
    return status;
}

static tutti_status poll_processes(struct tti_formation_watch *w, tutti_error *error)
{
    const int64_t now = tti_now_ns();
    if (!w->hellos || now - w->polled_ns < PROCESSES_NS) {
        return TUTTI_OK;
    }
    w->polled_ns = now;
    for (int32_t n = 0; n < w->size && n < PROCESSES; n++) {
        w->polled = w->polled % w->size + 1;
        const int32_t i = (w->self + w->polled) % w->size;
        const tutti_status status = process_status(w, i, error);
        if (status != TUTTI_OK && is_record_missing(w, i)) { /* in this order, as with departures */
            return status;
        }
    }
    return TUTTI_OK;
}

int32_t tti_formation_server(const struct tti_formation_watch *w)
{
    int32_t server = w->server;
    int32_t servers = 0;
    for (int32_t i = 0; w->hellos && i < w->size; i++) {
        server = w->hellos[i].serves && servers++ == 0 ? i : server;
    }
    return servers > 1 ? -1 : server; /* threads of one process: it ends with all of them */
}

/* After the store has ended. */
static tutti_status name_server(const struct tti_formation_watch *w, tutti_error *error)
{
    const int32_t server = tti_formation_server(w);
    if (server < 0) {
        return TUTTI_OK; /* the sentence of the store has to do */
    }
    const tutti_status status = process_status(w, server, error);
    if (status != TUTTI_OK) {
        return status;
    }
    tti_error_set(error, TUTTI_PEER_LEFT, "rank %d, which served the rendezvous, has ended", server);
    error->suspect = server;
    return TUTTI_PEER_LEFT;
}

int64_t tti_formation_refused(const struct tti_formation_watch *w)
{
    return tti_store_refused_count(w->rendezvous->store) - w->refused_before;
}

static tutti_status poll_refused(const struct tti_formation_watch *w, tutti_error *error)
{
    const int64_t count = w->accepting ? tti_formation_refused(w) : 0;
    return count <= 0
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_NO_RESOURCE,
                               "process %d serves the store %s and has refused %lld %s: it has no descriptors "
                               "left (its limit of open files, ulimit -n, is too low for this job), or no memory",
                               (int)getpid(), tti_store_url(w->rendezvous->store), (long long)count,
                               count == 1 ? "process" : "processes");
}

/* The caller's own condition, and the deadline. */
static tutti_status poll_deadline(const struct tti_formation_watch *w, tutti_error *error)
{
    const tutti_status status = w->poll ? w->poll(w->poll_user, error) : TUTTI_OK;
    return status != TUTTI_OK || w->deadline_ns == 0 || tti_remaining_ms(w->deadline_ns) != 0
               ? status
               : tti_error_set(error, TUTTI_TIMEOUT, "the new group was not complete within %lld ms",
                               (long long)w->timeout_ms);
}

/* The loss of a member, unless a rank has aborted. One that has aborted may end at once, and is not the cause then; its
 * record is put before its end. */
static tutti_status poll_members(struct tti_formation_watch *w, tutti_error *error)
{
    tutti_error lost;
    struct reason r;
    tutti_status status = poll_engines(w, &lost);
    status = status == TUTTI_OK ? poll_losses(w, &lost) : status;
    status = status == TUTTI_OK ? poll_processes(w, &lost) : status;
    if (status == TUTTI_OK) {
        return TUTTI_OK;
    }
    const tutti_status reason = read_reason(w, &r, error);
    if (reason == TUTTI_OK && !r.waits) {
        *error = lost;
        return status;
    }
    return reason;
}

tutti_status tti_formation_poll(void *user, tutti_error *error)
{
    struct tti_formation_watch *w = user;
    struct reason reason;
    tutti_status status = read_reason(w, &reason, error);
    /* after the store: if that has ended, its server has, and is found now */
    status = status == TUTTI_OK && !reason.waits ? poll_members(w, error) : status;
    status = status == TUTTI_OK && reason.store_ended ? name_server(w, error) : status;
    status = status == TUTTI_OK ? poll_refused(w, error) : status;
    return status == TUTTI_OK ? poll_deadline(w, error) : status;
}

tutti_status tti_formation_poll_member(const struct tti_formation_watch *w, int32_t member, tutti_error *error)
{
    tutti_status status = member_status(w, member, error);
    status = status == TUTTI_OK ? process_status(w, member, error) : status;
    return status == TUTTI_OK && w->poll ? w->poll(w->poll_user, error) : status;
}
