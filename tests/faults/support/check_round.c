/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what the ranks of a round returned, by the rules of docs/reliability.md. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define REPEATED_MOST 2

__attribute__((format(printf, 2, 3))) static void complain(char *text, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, COMPLAINT - used, format, arguments);
    va_end(arguments);
}

static bool names_victim(const struct round_state *s, const tutti_error *e)
{
    char name[64];
    snprintf(name, sizeof(name), "rank %d (process %d", s->round.victim, (int)s->pids[s->round.victim]);
    return e->suspect == s->round.victim && strstr(e->message, name) != NULL;
}

/* If a rank has left, a message to or from it fails alone, and the group stays usable. A further rank that then ends
 * has left as well. */
static bool spreads_alone(const struct round *r)
{
    return r->disturbance == DISTURBANCE_EXIT && r->work == WORK_MESSAGES;
}

/* After exec the process is no member any more but has the same number: only a robust list shows that. */
static bool is_unseen_exec(const struct round *r)
{
    return r->disturbance == DISTURBANCE_EXEC && (r->missing & MISSING_ROBUST_LISTS);
}

/* A call that the victim's end has spoilt. Not all calls after a departure are. */
static bool is_right_end(const struct round_state *s, const struct seen *own)
{
    const struct round *r = &s->round;
    const tutti_error *e = &own->error;
    if (is_unseen_exec(r)) {
        return own->status == TUTTI_TIMEOUT && names_victim(s, e);
    }
    switch (r->disturbance) {
    case DISTURBANCE_STOP:
        return own->status == TUTTI_TIMEOUT && names_victim(s, e) && strstr(e->message, "stopped") != NULL;
    case DISTURBANCE_EXIT: /* a leave, once there is a group: only ranks that need this rank notice it */
        return (own->status == TUTTI_PEER_LEFT || own->status == TUTTI_REVOKED) &&
               (e->suspect == r->victim || spreads_alone(r));
    case DISTURBANCE_SEGV:
    case DISTURBANCE_DUMP:
        return (own->status == TUTTI_PEER_DEAD || own->status == TUTTI_PEER_CRASHING) && names_victim(s, e);
    default:
        return own->status == TUTTI_PEER_DEAD && names_victim(s, e);
    }
}

/* The status of the call after the failed one. */
static bool is_right_next(const struct round *r, tutti_status next)
{
    /* a group that is not made, or memory that is not allocated, does not fail the group that it was to come from */
    const bool left = next == TUTTI_PEER_LEFT && (r->work == WORK_GROUPS || r->work == WORK_HEAP);
    const bool again = left || (r->work == WORK_GROUPS && (next == TUTTI_PEER_DEAD || next == TUTTI_PEER_CRASHING));
    /* the victim's exit() ends its store before it ends the thread that calls: the next group may still be made */
    if (r->work == WORK_GROUPS && r->disturbance == DISTURBANCE_EXIT && next == TUTTI_OK) {
        return true;
    }
    return next == TUTTI_REVOKED || spreads_alone(r) || again;
}

static bool is_scarcity(tutti_status status)
{
    return status == TUTTI_NO_MEMORY || status == TUTTI_NO_RESOURCE;
}

/* A rank without a resource error of its own names the rank that has one, or its process if only the store's server saw
 * it. */
static bool names_suspect_victim(const struct round_state *s, const tutti_error *e)
{
    char process[32];
    snprintf(process, sizeof(process), "process %d", (int)s->pids[s->round.victim]);
    return e->suspect == s->round.victim || strstr(e->message, process) != NULL;
}

/* The list behind "missing: rank" contains the victim: it ended before it could write a cause. */
static bool misses_victim(const struct round_state *s, const tutti_error *e)
{
    static const char missing[] = "missing: rank ";
    const char *list = strstr(e->message, missing);
    if (!list) {
        return e->suspect == s->round.victim;
    }
    for (list += strlen(missing);; list += strspn(list, ", ")) {
        char *end;
        const long number = strtol(list, &end, 10);
        if (end == list || number == s->round.victim) {
            return end != list;
        }
        list = end;
    }
}

/* The victim may end at any time of init: then some ranks have their group and notice the end later, and others have
 * none. A victim that has left no record is reported missing at the deadline, or (-1) only as the process that served
 * the store. */
static bool is_right_init(const struct round_state *s, const struct seen *own)
{
    const tutti_error *e = &own->error;
    switch (own->init) {
    case TUTTI_TIMEOUT:
        return misses_victim(s, e);
    case TUTTI_PEER_LEFT:
        return e->suspect == s->round.victim || e->suspect == -1;
    default:
        return (own->init == TUTTI_PEER_DEAD || own->init == TUTTI_PEER_CRASHING) && names_victim(s, e);
    }
}

/* If the victim lacks a resource, its error says which. The other ranks name the victim: it lacks a resource, or it has
 * left because of that. If it cannot even reach the rendezvous, it is reported missing there. */
static bool is_expected_resource_error(const struct round_state *s, int32_t rank, tutti_status status)
{
    const bool in_init = s->seen[rank].init != TUTTI_OK;
    const tutti_error *e = &s->seen[rank].error;
    if (status == TUTTI_OK) {
        return true;
    }
    if (rank == s->round.victim) {
        return is_scarcity(status) || (!in_init && status == TUTTI_REVOKED); /* another rank was the first to abort */
    }
    if (in_init) {
        return (is_scarcity(status) && names_suspect_victim(s, e)) ||
               (status == TUTTI_TIMEOUT && misses_victim(s, e)) ||
               (status == TUTTI_PEER_LEFT && (e->suspect == s->round.victim || e->suspect == -1));
    }
    /* no other rank can notice a message that was never posted */
    const bool missed = status == TUTTI_TIMEOUT && s->round.work == WORK_MESSAGES && names_victim(s, e);
    return (is_scarcity(status) && names_suspect_victim(s, e)) || status == TUTTI_MISMATCH ||
           status == TUTTI_PEER_LEFT || status == TUTTI_REVOKED || missed;
}

/* A root or a sender may return from its last call before other ranks begin theirs. Those notice its end first. */
static bool may_be_ahead(const struct round *r)
{
    return r->work == WORK_BROADCAST || r->work == WORK_ROOTED || r->work == WORK_MESSAGES;
}

static void check_end(const struct round_state *s, int32_t rank, char *text)
{
    const struct round *r = &s->round;
    const struct seen *own = &s->seen[rank];
    if (own->init != TUTTI_OK) {
        if (!happens_in_init(r) || !is_right_init(s, own)) {
            complain(text, "rank %d: init gives %s \"%s\"; ", rank, tutti_status_name(own->init), own->error.message);
        }
        return;
    }
    const bool all_well = r->point == POINT_BEFORE_DESTROY && own->status == TUTTI_OK;
    const bool may_fail = r->point != POINT_BEFORE_DESTROY || may_be_ahead(r);
    if (!all_well && !(may_fail && is_right_end(s, own) && is_right_next(r, own->next))) {
        complain(text, "rank %d: call %d gives %s \"%s\" suspect %d, and the next one %s; ", rank,
                 atomic_load(&own->at), tutti_status_name(own->status), own->error.message, own->error.suspect,
                 tutti_status_name(own->next));
    }
}

static void check_disturbed(const struct round_state *s, int32_t rank, char *text)
{
    const struct seen *own = &s->seen[rank];
    const bool resource_error = is_resource_error(s->round.disturbance);
    if (own->init != TUTTI_OK) {
        if (!resource_error || !is_expected_resource_error(s, rank, own->init)) {
            complain(text, "rank %d: init gives %s \"%s\"; ", rank, tutti_status_name(own->init), own->error.message);
        }
    } else if (resource_error ? !is_expected_resource_error(s, rank, own->status) : own->status != TUTTI_OK) {
        complain(text, "rank %d: call %d gives %s \"%s\" suspect %d; ", rank, atomic_load(&own->at),
                 tutti_status_name(own->status), own->error.message, own->error.suspect);
    }
}

/* In the middle of a call the victim may still have got the resource, or be named in its own error. */
static bool is_right_resumed(const struct round *r, const struct seen *victim)
{
    return atomic_load(&victim->finished) && !victim->faults[0] &&
           (victim->status == TUTTI_REVOKED || (r->point != POINT_BETWEEN && victim->status == TUTTI_TIMEOUT));
}

static void check_results(const struct round_state *s, bool well, char text[COMPLAINT])
{
    const struct round *r = &s->round;
    const struct seen *victim = &s->seen[r->victim];
    text[0] = '\0';
    if (!well) {
        complain(text, "hang; ");
    }
    for (int32_t i = 0; i < r->size; i++) {
        const struct seen *own = &s->seen[i];
        if (i == r->victim && is_end(r->disturbance)) {
            continue;
        }
        if (!atomic_load(&own->finished)) {
            complain(text, "rank %d did not come to its end (call %d); ", i, atomic_load(&own->at));
            continue;
        }
        if (own->faults[0]) {
            complain(text, "rank %d: %s", i, own->faults);
        }
        if (is_end(r->disturbance)) {
            check_end(s, i, text);
        } else {
            check_disturbed(s, i, text);
        }
    }
    if (r->disturbance == DISTURBANCE_STOP && !is_right_resumed(r, victim)) {
        complain(text, "the one that was resumed: %s \"%s\" %s", tutti_status_name(victim->status),
                 victim->error.message, victim->faults);
    }
}

bool has_waited(const struct round_state *s, int32_t rank)
{
    const struct seen *own = &s->seen[rank];
    return rank != s->round.victim && is_end(s->round.disturbance) && own->init == TUTTI_OK &&
           own->status != TUTTI_OK && own->began_ns < s->happened_ns;
}

/* Beside a load, the scheduler may give a thread no CPU for longer than a deadline. Then an error names a rank that
 * runs, or the server of the store, and not the victim. */
static bool lacked_cpu(const struct round_state *s)
{
    for (int32_t i = 0; i < s->round.size; i++) {
        const struct seen *own = &s->seen[i];
        if ((own->init == TUTTI_TIMEOUT || own->status == TUTTI_TIMEOUT) &&
            (strstr(own->error.message, ", running") || strstr(own->error.message, "does not answer"))) {
            return true;
        }
    }
    return false;
}

bool run_checked_round(struct round_state *s, const struct round *r, char text[COMPLAINT])
{
    struct round slower = *r;
    bool well;
    int repeated = 0;
    for (;;) {
        well = run_round(s, &slower);
        check_results(s, well, text);
        if (!text[0] || repeated == REPEATED_MOST || !lacked_cpu(s)) {
            return well;
        }
        fprintf(stderr, "repeated with twice the time, since a rank or the store had no CPU until the deadline: %s\n",
                text);
        repeated++;
        slower.init_ms = slower.init_ms < LONG_MS / 2 ? 2 * slower.init_ms : LONG_MS;
        slower.call_ms = slower.call_ms < LONG_MS / 2 ? 2 * slower.call_ms : LONG_MS;
    }
}

int check_round(struct round_state *s, const struct round *r)
{
    char text[COMPLAINT];
    run_checked_round(s, r, text);
    if (text[0] == '\0') {
        return 0;
    }
    print_round(r, stderr);
    fprintf(stderr, ": %s\n", text);
    return 1;
}
