/* SPDX-License-Identifier: BSD-3-Clause */
/* Watching over those who meet at a rendezvous, mostly to make a group: see formation_watch.c. */
#ifndef TTI_CORE_FORMATION_WATCH_H
#define TTI_CORE_FORMATION_WATCH_H

#include <stdbool.h>

#include "core/group/plan.h"

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

/* The member that serves the store, as the records say that have been read, or else the group; -1: none of them, or not
 * known. */
int32_t tti_formation_server(const struct tti_formation_watch *watch);

/* How many processes the store could not let in meanwhile, if it is served here. */
int64_t tti_formation_refused(const struct tti_formation_watch *watch);

/* Tells the others that nothing will come of it, and why, unless somebody has done so before. */
void tti_formation_abort(const struct tti_formation_watch *watch, const struct tti_outcome *outcome);

#endif
