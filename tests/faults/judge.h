/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a round have to have seen. */
#ifndef TESTS_FAULTS_JUDGE_H
#define TESTS_FAULTS_JUDGE_H

#include "round.h"

#define COMPLAINT 4096 /* bytes */

__attribute__((format(printf, 2, 3))) static inline void complain(char *text, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, COMPLAINT - used, format, arguments);
    va_end(arguments);
}

static inline bool names_victim(const struct stage *s, const tutti_error *e)
{
    char name[64];
    snprintf(name, sizeof(name), "rank %d (process %d", s->round.victim, (int)s->pids[s->round.victim]);
    return e->suspect == s->round.victim && strstr(e->message, name) != NULL;
}

/* A message to or from a rank that has left fails alone, and the group stays usable. Who then ends is the next to have left. */
static inline bool spreads_alone(const struct round *r)
{
    return r->end == END_EXIT && r->work == WORK_MESSAGES;
}

/* A call that the end has spoilt. Not all calls after a departure are. */
static inline bool is_right(const struct stage *s, const struct seen *own)
{
    const tutti_error *e = &own->error;
    switch (s->round.end) {
    case END_STOP:
        return own->status == TUTTI_TIMEOUT && names_victim(s, e) && strstr(e->message, "stopped") != NULL;
    case END_EXIT: /* a departure, once there is a group: only who needs the rank notices by itself */
        return (own->status == TUTTI_PEER_LEFT || own->status == TUTTI_REVOKED ||
                (own->status == TUTTI_PEER_DEAD && ends_in_init(&s->round))) &&
               (e->suspect == s->round.victim || spreads_alone(&s->round));
    case END_SEGV:
        return (own->status == TUTTI_PEER_DEAD || own->status == TUTTI_PEER_CRASHING) && names_victim(s, e);
    default:
        return own->status == TUTTI_PEER_DEAD && names_victim(s, e);
    }
}

/* The victim may end at any time of init: then some ranks have their group, and hear of it later, and others do not. */
static inline bool is_right_init(const struct stage *s, const struct seen *own)
{
    const bool named = own->error.suspect == s->round.victim || own->error.suspect == -1;
    return named && (own->init == TUTTI_TIMEOUT || own->init == TUTTI_PEER_DEAD || own->init == TUTTI_PEER_LEFT);
}

static inline void judge_survivor(const struct stage *s, int32_t rank, char *text)
{
    const struct round *r = &s->round;
    const struct seen *own = &s->seen[rank];
    if (!atomic_load(&own->finished)) {
        complain(text, "rank %d did not come to its end (call %d); ", rank, atomic_load(&own->at));
        return;
    }
    if (own->faults[0]) {
        complain(text, "rank %d: %s", rank, own->faults);
    }
    if (own->init != TUTTI_OK) {
        if (!ends_in_init(r) || !is_right_init(s, own)) {
            complain(text, "rank %d: init gives %s \"%s\"; ", rank, tutti_status_name(own->init), own->error.message);
        }
        return;
    }
    if (r->point == POINT_BEFORE_DESTROY ? own->status != TUTTI_OK
                                         : !is_right(s, own) || (own->next != TUTTI_REVOKED && !spreads_alone(r))) {
        complain(text, "rank %d: call %d gives %s \"%s\" suspect %d, and the next one %s; ", rank,
                 atomic_load(&own->at), tutti_status_name(own->status), own->error.message, own->error.suspect,
                 tutti_status_name(own->next));
    }
}

/* Empty if all is as it must be. */
static inline void judge(const struct stage *s, bool well, char text[COMPLAINT])
{
    const struct round *r = &s->round;
    const struct seen *victim = &s->seen[r->victim];
    text[0] = '\0';
    if (!well) {
        complain(text, "hang; ");
    }
    for (int32_t i = 0; i < r->size; i++) {
        if (i != r->victim) {
            judge_survivor(s, i, text);
        }
    }
    if (r->end == END_STOP && r->point == POINT_BETWEEN &&
        (!atomic_load(&victim->finished) || victim->status != TUTTI_REVOKED || victim->faults[0])) {
        complain(text, "the one that was resumed: %s \"%s\" %s", tutti_status_name(victim->status),
                 victim->error.message, victim->faults);
    }
}

static inline void tell_round(const struct round *r, FILE *to)
{
    fprintf(to, "%d ranks, %s, %s of rank %d %s after %d us", r->size, work_names[r->work], end_names[r->end],
            r->victim, point_names[r->point], r->delay_us);
}

#endif
