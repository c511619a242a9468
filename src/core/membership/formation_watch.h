/* SPDX-License-Identifier: BSD-3-Clause */
/* Polling for failures while ranks form a group: see formation_watch.c. */
#ifndef TTI_CORE_MEMBERSHIP_FORMATION_WATCH_H
#define TTI_CORE_MEMBERSHIP_FORMATION_WATCH_H

#include <stdbool.h>

#include "core/group/plan.h"

/* The outcome of one member. Fixed layout: it is sent between processes. */
struct tti_outcome {
    int32_t status;
    int32_t rank;
    int32_t suspect;
    char backend[16]; /* that could not be opened; "": another step has failed */
    char message[300];
};

/* From now on the opening has this limit; -1: none. */
void tti_formation_limit(struct tti_formation_watch *watch, int64_t timeout_ms);

/* Fills in the rest of the watch. From now on the waits of the rendezvous poll with it, until its poll_failures is NULL
 * again. */
void tti_formation_begin(struct tti_formation_watch *watch, struct tti_rendezvous *rendezvous, int32_t size,
                         const char *record_key);

/* A tti_poll_function; `user` is a watch. A failure always fills in *error. */
tutti_status tti_formation_poll(void *user, tutti_error *error);

/* The same for a wait for one member that has a deadline of its own: polls that member and the caller's condition
 * only. */
tutti_status tti_formation_poll_member(const struct tti_formation_watch *watch, int32_t member, tutti_error *error);

/* Makes a record of `status` and `error` (complete if that is not OK), and reads one back among `size` members. */
void tti_outcome_fill(struct tti_outcome *outcome, int32_t rank, const char *backend, tutti_status status,
                      const tutti_error *error);
tutti_status tti_outcome_read(struct tti_outcome *outcome, int32_t size, tutti_error *error);

/* Whether the member has done its part in memory that it shares with this rank: from_parent.c. */
bool tti_formation_has_offered(const struct tti_formation_watch *watch, int32_t member);

/* The member that serves the store, from the records that have been read, or else from the parent; -1: no member, or
 * not known. */
int32_t tti_formation_server(const struct tti_formation_watch *watch);

/* How many processes the store has refused since tti_formation_begin, if it is served here. */
int64_t tti_formation_refused(const struct tti_formation_watch *watch);

/* Reports to the others that the group fails, and the cause; an earlier report of another rank wins. */
void tti_formation_abort(const struct tti_formation_watch *watch, const struct tti_outcome *outcome);

#endif
