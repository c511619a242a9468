/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing together. A rank that aborts a call writes a record into its own segment, once: the cause, the call, the
 * suspects. Then it raises the alarm, which wakes all ranks. Ranks that wait in the same call return the same cause.
 * Later calls, and calls on other lanes, return REVOKED with that cause. A rank that leaves sets a flag and raises the
 * alarm, too; only calls that need it end with PEER_LEFT. The names follow ULFM (User Level Failure Mitigation, MPI
 * Forum).
 *
 * Order inside failure/: peers < peer_death < fault < absent, corrupt, agreement, liveness_monitor. wait/ is below; it
 * reports here through the table in engine/wait/wait.h. Cost: none for a call that succeeds, apart from one load of the
 * alarm.
 */
#include "engine/failure/fault.h"

#include <stdio.h>

#include "engine/failure/peer_death.h"
#include "engine/failure/peers.h"
#include "engine/wait/publish.h"

#define NAMES 300 /* bytes for the ranks in a sentence */

static void suspect_only(uint64_t *suspects, int rank)
{
    memset(suspects, 0, TTI_MAX_RANKS / 8);
    tti_peers_add(suspects, rank);
}

static bool is_death(tutti_status status)
{
    return status == TUTTI_PEER_DEAD || status == TUTTI_PEER_CRASHING;
}

/* This process keeps the first failure that it sees. */
static void remember(struct tti_engine *e, const tutti_error *error, bool death)
{
    pthread_mutex_lock(&e->failure_lock);
    if (atomic_load_explicit(&e->failed, memory_order_relaxed) == TUTTI_OK) {
        e->failure = *error;
        e->failure.scope = TUTTI_SCOPE_GROUP;
        e->death = death;
        /* release: pairs with the acquire in check() and tti_fault_first */
        atomic_store_explicit(&e->failed, error->status, memory_order_release);
    }
    pthread_mutex_unlock(&e->failure_lock);
}

static tutti_error failure_of(struct tti_engine *e)
{
    pthread_mutex_lock(&e->failure_lock);
    tutti_error cause = e->failure;
    pthread_mutex_unlock(&e->failure_lock);
    return cause;
}

/* Whether a call returns the death itself: every call that it has interrupted; if there is none, the first later
 * call. */
static bool is_unreported_death(const struct tti_engine *e, bool interrupted)
{
    /* relaxed: if two calls race, both return the death, which does no harm */
    return interrupted || !atomic_load_explicit(&e->death_reported, memory_order_relaxed);
}

/* The sentence names the lane's call, if it has begun. */
static void set_cause(const struct tti_lane *lane, tutti_status status, const char *sentence, tutti_error *error)
{
    if (lane && lane->op) {
        tti_error_set(error, status, "%.16s (call %llu, lane %d) cannot end: %.340s",
                      tutti_operation_name(lane->op->kind), (unsigned long long)lane->call, lane->index, sentence);
    } else {
        tti_error_set(error, status, "%s", sentence);
    }
}

static tutti_status report_death(struct tti_engine *e, const struct tti_lane *lane, const tutti_error *cause,
                                 tutti_error *error)
{
    set_cause(lane, cause->status, cause->message, error);
    error->scope = TUTTI_SCOPE_GROUP;
    error->suspect = cause->suspect;
    atomic_store_explicit(&e->death_reported, true, memory_order_relaxed);
    return cause->status;
}

/* The error of a call that the failure is not about. `interrupted`: the call had begun before. */
static tutti_status revoked(struct tti_engine *e, const struct tti_lane *lane, bool interrupted, tutti_error *error)
{
    const tutti_error cause = failure_of(e);
    if (!error) {
        return TUTTI_REVOKED;
    }
    if (e->death && is_unreported_death(e, interrupted)) { /* set before `failed` */
        return report_death(e, lane, &cause, error);
    }
    return tti_error_revoked(error, &cause);
}

/* Whether a record is about the lane's call: about that call, or (call 0) about any call that waits on the lane. */
static bool is_about(const struct tti_lane *lane, int32_t where, uint64_t call)
{
    return lane && lane->op && where == lane->index && (call == lane->call || call == 0);
}

static const char *revoked_how(tutti_operation operation)
{
    return operation == TUTTI_OP_ABORT ? "aborted" : "revoked";
}

/* The sentence of a timeout: the same on the rank that timed out and on ranks that read its record. `names`: the
 * suspects, may be empty. */
static void report_timeout(tutti_error *error, const struct tti_fault *f, int owner, const char *names)
{
    static const char *const delays[TTI_LATE_COUNT] = {"not arrived", "many calls behind", "arrived but did not go on"};
    const char *how = delays[f->how];
    const long long waited = (long long)f->waited_ms;
    const char *colon = names[0] ? ": " : "";
    if (f->lane == TTI_FAULT_MESSAGES) {
        tti_error_set(error, TUTTI_TIMEOUT, "a message of rank %d waited %lld ms for the other side%s%s", owner, waited,
                      colon, names);
    } else if (f->lane < 0 || f->call == 0) {
        char lane[24] = "";
        snprintf(lane, sizeof(lane), f->lane < 0 ? "" : " on lane %d", f->lane);
        tti_error_set(error, TUTTI_TIMEOUT, "rank %d waited %lld ms%s%s%s%s", owner, waited, lane,
                      names[0] ? "; not arrived there" : "", colon, names);
    } else {
        tti_error_set(error, TUTTI_TIMEOUT, "%.16s (call %llu, lane %d) waited %lld ms; %s%s%s",
                      tutti_operation_name(f->operation), (unsigned long long)f->call, f->lane, waited, how, colon,
                      names);
    }
    error->elapsed_ms = f->waited_ms;
}

/* The place where a rank has given up, as text. */
static void name_place(const struct tti_fault *f, char *text, size_t capacity)
{
    if (f->lane < 0) {
        snprintf(text, capacity, f->lane == TTI_FAULT_MESSAGES ? "its messages" : "the group");
    } else if (f->call == 0) {
        snprintf(text, capacity, "lane %d", f->lane);
    } else {
        snprintf(text, capacity, "%.16s (call %llu, lane %d)", tutti_operation_name(f->operation),
                 (unsigned long long)f->call, f->lane);
    }
}

/* Takes over another rank's record. It is read once and checked, so that it is safe to print. */
static tutti_status adopt(struct tti_engine *e, struct tti_lane *lane, bool interrupted, int rank, tutti_error *error)
{
    const struct tti_fault *shared = tti_fault_of(e, rank);
    struct tti_fault f = {.lane = shared->lane,
                          .operation = shared->operation,
                          .call = shared->call,
                          .waited_ms = shared->waited_ms,
                          .how = shared->how};
    tutti_status cause = shared->cause;
    if (cause != TUTTI_NO_MEMORY && cause != TUTTI_MISMATCH && (cause < TUTTI_TIMEOUT || cause > TUTTI_REVOKED)) {
        cause = TUTTI_PEER_CORRUPT; /* no rank gives up with another status */
    }
    f.how = f.how >= 0 && f.how < TTI_LATE_COUNT ? f.how : TTI_LATE_NOT_ARRIVED;
    const int32_t where = f.lane;
    const uint64_t call = f.call;
    uint64_t suspects[TTI_MAX_RANKS / 64];
    memcpy(suspects, shared->suspects, sizeof(suspects));
    const int first = tti_peers_first(suspects, e->size);
    const bool names_other = is_death(cause) && first >= 0 && first != e->rank;
    if (names_other && tti_peer_is_dead(e, first)) {
        tti_fault_death(e, first); /* confirmed: this rank reports it as its own finding */
        return revoked(e, lane, interrupted, error);
    }
    tutti_error text;
    char what[64];
    char names[NAMES];
    tti_peers_text(e, where, suspects, names, sizeof(names));
    if (cause == TUTTI_REVOKED && where == TTI_FAULT_ANYWHERE && first < 0) {
        tti_error_set(&text, cause, "rank %d has %s the group", rank, revoked_how(f.operation));
        text.suspect = rank;
        remember(e, &text, false);
        return revoked(e, lane, interrupted, error);
    }
    if (cause == TUTTI_TIMEOUT) {
        report_timeout(&text, &f, rank, names);
    } else {
        name_place(&f, what, sizeof(what));
        tti_error_set(&text, cause, "rank %d gave up %s: %s%s%s", rank, what, tutti_status_string(cause),
                      names[0] ? "; suspected: " : "", names);
    }
    text.suspect = first >= 0 ? first : rank;
    /* Not confirmed: the process is between its core dump and its end, or cannot be seen from here. A record about a
     * lane is not tti_fault_death's: its suspects may live. */
    remember(e, &text, names_other && where == TTI_FAULT_ANYWHERE);
    if (error && is_about(lane, where, call)) {
        text.scope = TUTTI_SCOPE_GROUP;
        *error = text;
        return cause;
    }
    return revoked(e, lane, interrupted, error);
}

/* Whether a rank's record is about this call. Another lane of this rank may have taken over the failure before. */
static bool concerns(const struct tti_engine *e, const struct tti_lane *lane, int rank)
{
    const struct tti_fault *f = tti_fault_of(e, rank);
    /* acquire: pairs with the release in fail_group(); the record is complete */
    return atomic_load_explicit(&f->state, memory_order_acquire) != TTI_FAULT_NONE && is_about(lane, f->lane, f->call);
}

static tutti_status check(struct tti_engine *e, struct tti_lane *lane, bool interrupted, int publisher,
                          tutti_error *error)
{
    /* acquire: pairs with remember() */
    if (atomic_load_explicit(&e->failed, memory_order_acquire) != TUTTI_OK) {
        for (int r = 0; lane && r < e->size; r++) {
            if (r != e->rank && concerns(e, lane, r)) {
                return adopt(e, lane, interrupted, r, error);
            }
        }
        return revoked(e, lane, interrupted, error);
    }
    for (int r = 0; r < e->size; r++) {
        /* acquire: the same */
        if (r != e->rank && atomic_load_explicit(&tti_fault_of(e, r)->state, memory_order_acquire) != TTI_FAULT_NONE) {
            return adopt(e, lane, interrupted, r, error);
        }
    }
    if (publisher >= 0 && tti_has_left(e, publisher)) {
        /* acquire: the same; a rank that gives up writes its record before it leaves, which may be since the loop */
        if (atomic_load_explicit(&tti_fault_of(e, publisher)->state, memory_order_acquire) != TTI_FAULT_NONE) {
            return adopt(e, lane, interrupted, publisher, error);
        }
        char sentence[160];
        tti_peers_left_text(e, publisher, sentence, sizeof(sentence));
        set_cause(lane, TUTTI_PEER_LEFT, sentence, error);
        error->suspect = publisher;
        return lane ? tti_fault_raise_suspect(e, lane, publisher, error) : TUTTI_PEER_LEFT;
    }
    return TUTTI_OK;
}

tutti_status tti_fault_check(struct tti_engine *e, struct tti_lane *lane, int publisher, tutti_error *error)
{
    return check(e, lane, lane && lane->op, publisher, error);
}

tutti_status tti_fault_check_alarm(struct tti_lane *lane, uint32_t alarm)
{
    if (__builtin_expect(alarm == lane->alarm_seen, 1)) {
        return TUTTI_OK;
    }
    const tutti_status status = tti_fault_check(lane->engine, lane, -1, lane->error);
    if (status == TUTTI_OK) {
        lane->alarm_seen = alarm;
    }
    return status;
}

tutti_status tti_fault_check_messages(struct tti_engine *e, tutti_error *error)
{
    return check(e, NULL, true, -1, error);
}

/* What a record is about. */
struct place {
    int32_t lane; /* or TTI_FAULT_MESSAGES, TTI_FAULT_ANYWHERE */
    tutti_operation operation;
    uint64_t call;
    bool death;  /* a peer has died */
    int32_t how; /* TTI_LATE_* */
};

static void write_record(struct tti_fault *f, struct place place, const uint64_t *suspects, const tutti_error *error)
{
    if (atomic_load_explicit(&f->state, memory_order_relaxed) == TTI_FAULT_NONE) {
        f->cause = error->status;
        f->lane = place.lane;
        f->operation = place.operation;
        f->call = place.call;
        f->waited_ms = error->elapsed_ms;
        f->how = place.how;
        memcpy(f->suspects, suspects, sizeof(f->suspects));
        /* release: pairs with the acquire in check() of the others */
        atomic_store_explicit(&f->state, TTI_FAULT_FAILED, memory_order_release);
    }
}

/* With error->suspect set. */
static tutti_status publish_failure(struct tti_engine *e, struct place place, const uint64_t *suspects,
                                    tutti_error *error)
{
    error->scope = TUTTI_SCOPE_GROUP;
    pthread_mutex_lock(&e->failure_lock); /* two lanes may fail at once: the first record stays */
    write_record(tti_fault_of(e, e->rank), place, suspects, error);
    pthread_mutex_unlock(&e->failure_lock);
    /* after the record: a thread that sees the failure finds the record */
    remember(e, error, place.death);
    tti_raise_alarm(e);
    return error->status;
}

static tutti_status fail_group(struct tti_engine *e, struct place place, const uint64_t *suspects, tutti_error *error)
{
    error->suspect = tti_peers_first(suspects, e->size);
    return publish_failure(e, place, suspects, error);
}

tutti_status tti_fault_raise(struct tti_engine *e, struct tti_lane *lane, const uint64_t *suspects, tutti_error *error)
{
    struct place place = {.lane = TTI_FAULT_MESSAGES};
    if (lane) {
        place = (struct place){
            .lane = lane->index, .operation = lane->op ? lane->op->kind : TUTTI_OP_NONE, .call = lane->call};
    }
    return fail_group(e, place, suspects, error);
}

tutti_status tti_fault_raise_suspect(struct tti_engine *e, struct tti_lane *lane, int rank, tutti_error *error)
{
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    if (rank >= 0 && rank < e->size) {
        suspect_only(suspects, rank);
    }
    return tti_fault_raise(e, lane, suspects, error);
}

void tti_fault_death(struct tti_engine *e, int rank)
{
    const struct tti_proc_id id = tti_peer_id(e, rank);
    const struct tti_proc process = tti_proc_query(&id);
    uint64_t suspects[TTI_MAX_RANKS / 64];
    char text[160];
    tutti_error error;
    suspect_only(suspects, rank);
    /* release: pairs with tti_known_dead */
    atomic_fetch_or_explicit(&e->dead[rank / 64], UINT64_C(1) << (rank % 64), memory_order_release);
    const tutti_status status = tti_proc_describe_end(rank, &id, &process, text, sizeof(text));
    tti_error_set(&error, status, "%s", text);
    fail_group(e, (struct place){.lane = TTI_FAULT_ANYWHERE, .death = true}, suspects, &error);
}

void tti_fault_revoke(struct tti_engine *e, tutti_operation how)
{
    const uint64_t none[TTI_MAX_RANKS / 64] = {0};
    tutti_error error;
    tti_error_set(&error, TUTTI_REVOKED, "rank %d has %s the group", e->rank, revoked_how(how));
    fail_group(e, (struct place){.lane = TTI_FAULT_ANYWHERE, .operation = how}, none, &error);
}

void tti_fault_left(struct tti_engine *e, int rank)
{
    /* release: pairs with tti_has_left */
    atomic_fetch_or_explicit(&e->left[rank / 64], UINT64_C(1) << (rank % 64), memory_order_release);
    tti_raise_alarm(e);
}

void tti_fault_decline(unsigned char *segment, const struct tti_layout *layout, const tutti_error *cause)
{
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    if (cause && cause->suspect >= 0 && cause->suspect < layout->size) {
        suspect_only(suspects, cause->suspect);
    }
    if (cause) {
        write_record((struct tti_fault *)(segment + layout->fault), (struct place){.lane = TTI_FAULT_ANYWHERE},
                     suspects, cause);
    }
    /* release: as in tti_fault_leave */
    atomic_store_explicit(&((struct tti_segment_header *)segment)->left, 1, memory_order_release);
}

void tti_fault_leave(struct tti_engine *e)
{
    /* release: pairs with the acquire in tti_has_left; everything that this rank publishes comes before */
    atomic_store_explicit(&tti_header(e, e->rank)->left, 1, memory_order_release);
    tti_raise_alarm(e);
}

void tti_fault_check_peer(struct tti_engine *e, int rank)
{
    if (e->futex_private != 0 || rank == e->rank || tti_has_left(e, rank)) {
        return;
    }
    const bool ended = tti_peer_process_has_ended(e, rank);
    const enum tti_peer_end end = tti_peer_end(e, rank, ended || tti_segment_is_marked(tti_home(e, rank)));
    if (end == TTI_PEER_DEAD) {
        tti_fault_death(e, rank);
    } else if (end == TTI_PEER_LEAVES && ended) { /* marked only: its memory is not free yet */
        tti_fault_left(e, rank);
    }
}

/* Adds the ranks that have not arrived at this rank's newest call on the lane. Another thread may run that call, so its
 * number is read from the ring. */
static void add_laggards(const struct tti_engine *e, int32_t index, uint64_t *suspects)
{
    const struct tti_lane *lane = &e->lanes[index];
    uint64_t newest = 0;
    for (uint64_t slot = 0; slot < TTI_RING; slot++) {
        uint64_t call = atomic_load_explicit(&tti_arrival_of(lane, e->rank, slot)->sequence, memory_order_acquire);
        newest = call > newest ? call : newest;
    }
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank &&
            atomic_load_explicit(&tti_arrival_of(lane, r, newest)->sequence, memory_order_acquire) < newest) {
            tti_peers_add(suspects, r);
        }
    }
}

void tti_fault_abort(struct tti_engine *e, int32_t lane, const tutti_error *cause)
{
    tutti_error error = *cause;
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    char names[NAMES];
    if (cause->suspect >= 0 && cause->suspect < e->size) {
        suspect_only(suspects, cause->suspect);
    } else if (lane >= 0 && lane < e->layout.lanes) {
        add_laggards(e, lane, suspects);
    }
    tti_peers_text(e, lane, suspects, names, sizeof(names));
    if (names[0]) {
        tti_error_set(&error, cause->status, "%.200s; not arrived there: %s", cause->message, names);
        error.elapsed_ms = cause->elapsed_ms;
    }
    const bool aborted = lane < 0 && cause->status == TUTTI_REVOKED && !names[0]; /* by the application */
    const struct place place = {.lane = aborted ? TTI_FAULT_ANYWHERE : lane,
                                .operation = aborted ? TUTTI_OP_ABORT : TUTTI_OP_NONE};
    error.suspect = tti_peers_first(suspects, e->size);
    if (error.suspect < 0 && lane >= 0) {
        error.suspect = e->rank; /* no other rank is late on the lane: the others suspect this one, too (adopt) */
    }
    publish_failure(e, place, suspects, &error);
}

/* The publisher may itself wait for another rank. If some ranks' processes cannot run, those are the suspects. */
static void suspect_stuck(const struct tti_engine *e, int publisher, uint64_t *suspects)
{
    bool found = false;
    suspect_only(suspects, publisher);
    for (int r = 0; e->futex_private == 0 && r < e->size; r++) {
        if (r != e->rank && tti_peer_is_stalled(e, r)) {
            if (!found) {
                memset(suspects, 0, TTI_MAX_RANKS / 8);
            }
            found = true;
            tti_peers_add(suspects, r);
        }
    }
}

tutti_status tti_fault_timeout(struct tti_lane *lane, int publisher)
{
    struct tti_engine *e = lane->engine;
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    const uint64_t call = lane->needed_call != 0 ? lane->needed_call : lane->call;
    int late = 0;
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank &&
            atomic_load_explicit(&tti_arrival_of(lane, r, call)->sequence, memory_order_acquire) < call) {
            tti_peers_add(suspects, r);
            late++;
        }
    }
    int32_t how = call < lane->call ? TTI_LATE_BEHIND : TTI_LATE_NOT_ARRIVED;
    if (late == 0) { /* all ranks have arrived, but one does not go on */
        suspect_stuck(e, publisher, suspects);
        how = TTI_LATE_STUCK;
    }
    char names[NAMES];
    tti_peers_text(e, lane->index, suspects, names, sizeof(names));
    /* After reading the processes: a rank that gave up for the same suspect, and has ended since, is no suspect. */
    const tutti_status earlier = tti_fault_check(e, lane, -1, lane->error);
    if (earlier != TUTTI_OK) {
        return earlier;
    }
    const struct place place = {.lane = lane->index, .operation = lane->op->kind, .call = lane->call, .how = how};
    const struct tti_fault facts = {.lane = place.lane,
                                    .operation = place.operation,
                                    .call = place.call,
                                    .waited_ms = (tti_now_ns() - lane->started_ns) / 1000000,
                                    .how = how};
    report_timeout(lane->error, &facts, e->rank, names);
    return fail_group(e, place, suspects, lane->error);
}

tutti_status tti_fault_first(struct tti_engine *e, tutti_error *error)
{
    /* acquire: pairs with remember(). This rank may not have read the others' records yet: check() does */
    if (atomic_load_explicit(&e->failed, memory_order_acquire) == TUTTI_OK &&
        check(e, NULL, false, -1, NULL) == TUTTI_OK) {
        return tti_error_clear(error);
    }
    pthread_mutex_lock(&e->failure_lock);
    tutti_status status = e->failure.status;
    if (error) {
        *error = e->failure;
    }
    pthread_mutex_unlock(&e->failure_lock);
    return status;
}
