/* SPDX-License-Identifier: BSD-3-Clause */
/* Watching over those who meet at a rendezvous, mostly to make a group: see formation_watch.c. */
#ifndef TTI_CORE_FORMATION_WATCH_H
#define TTI_CORE_FORMATION_WATCH_H

#include <stdbool.h>

#include "core/membership/rendezvous.h"

struct tti_group;
struct tti_hello;

/* Members count from 0 in the group that is being made. */
struct tti_formation_watch {
    const struct tti_group *from; /* the group that the first `count` members come from; NULL: nobody is known yet */
    const int32_t *ranks;         /* theirs there; NULL: 0, 1, 2, ... */
    int32_t count;
    int64_t until_ns; /* of all of it; 0: only what each wait is told */
    int64_t timeout_ms;
    tti_poll_function more; /* whatever else ends it; NULL: nothing */
    void *user;
    /* The rest is filled in by whoever waits. */
    struct tti_rendezvous *place;
    struct tti_hello *hellos;     /* the members' records, as they are read, zeros before; NULL: there are none */
    int32_t self;                 /* this rank's number among them */
    int64_t polled_ns;            /* when their processes were looked at last */
    int32_t size;                 /* how many meet there; INT32_MAX: not known */
    char last[24];                /* who has put `last`/MEMBER there owes the others nothing more */
    int32_t server;               /* the member that serves the store, as the group knows that they come from; or -1 */
    const struct tti_group *open; /* the new group, once its engines are open: they know, too; NULL: not yet */
    bool accepting;               /* members are awaited who may not have come to the store yet */
    int64_t reported_ns;          /* when a reason was first heard that stands in the records; 0: none was */
    int64_t refused_before;       /* by the store before, if it is served here */
};

/* Whether it says that a rank is lost or late: the same for all that have to do with it. */
static inline bool tti_is_loss(tutti_status status)
{
    return status >= TUTTI_TIMEOUT && status <= TUTTI_PEER_CRASHING;
}

/* How it went for one member. Fixed layout: it travels between processes. */
struct tti_outcome {
    int32_t status;
    int32_t rank;
    int32_t suspect;
    char backend[16]; /* that could not be opened; "": it has not come to that */
    char message[300];
};

/* Fills in the rest; and the place looks with it, until its `look` is NULL again. */
void tti_formation_begin(struct tti_formation_watch *watch, struct tti_rendezvous *place, int32_t size,
                         const char *last);

/* A tti_poll_function; `user` is a lookout, and *error is filled in in any case of failure. */
tutti_status tti_formation_poll(void *user, tutti_error *error);

/* The same for who waits for one member only, whatever becomes of the others; and whatever it has put there already. */
tutti_status tti_formation_poll_member(const struct tti_formation_watch *watch, int32_t member, tutti_error *error);

/* `status` and `error` (complete if that is not OK) as a record, and back among `size` members. */
void tti_outcome_fill(struct tti_outcome *outcome, int32_t rank, const char *backend, tutti_status status,
                      const tutti_error *error);
tutti_status tti_outcome_read(struct tti_outcome *outcome, int32_t size, tutti_error *error);

/* The member that serves the store, as the records say that have been read, or else the group; -1: none of them, or not known. */
int32_t tti_formation_server(const struct tti_formation_watch *watch);

/* How many processes the store could not let in meanwhile, if it is served here. */
int64_t tti_formation_refused(const struct tti_formation_watch *watch);

/* Tells the others that nothing will come of it, and why, unless somebody has done so before. */
void tti_formation_abort(const struct tti_formation_watch *watch, const struct tti_outcome *outcome);

#endif
