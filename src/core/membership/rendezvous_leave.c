/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last step at the rendezvous of a group: each member puts `seen`/RANK. The rank that serves the store waits for
 * all of these keys, up to LEAVE_MS. Else its end could end the store before the others have read the outcome. After an
 * error it also waits for ranks that have not arrived yet, unless the error is the loss of a rank.
 *
 * The store may have refused processes. Once it has refused as many as are absent, no absent rank is waited for. If the
 * application has aborted the old group (REVOKED), this rank does not wait: the survivors begin again in another store
 * (recover.c).
 *
 * While the group lives, its keys stay: waiting ranks leave notes there (wait_registry.c). In a store in memory the
 * last rank that destroys the group removes them. Elsewhere they stay as long as the store: a rank that destroys a
 * group must not wait for a server. In a store that lasts each rank puts `gone`/RANK, so that a later job skips the
 * group.
 *
 * Cost for n members: one or two gets for each of them, and a waiting get for each that is late. After a refusal, each
 * poll of such a wait makes up to n + 1 gets more.
 */
#include "core/membership/rendezvous_leave.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/group_state.h"
#include "core/group/records/hello.h"
#include "core/membership/formation_watch.h"

#define LEAVE_MS 5000 /* for ranks that have died after their hello, or are late */

/* Reads the rank's hello, if it is there, into watch->hellos: from then on tti_formation_poll_member also checks its
 * process. True: the rank has arrived. */
static bool fetch_hello(const struct tti_formation_watch *watch, int32_t rank)
{
    const tutti_rendezvous *rv = &watch->rendezvous->table;
    char key[40];
    struct tti_hello unused;
    struct tti_hello *record = watch->hellos && rank < watch->size ? &watch->hellos[rank] : &unused;
    size_t length = 0;
    snprintf(key, sizeof(key), "hello/%d", rank);
    return rv->get(rv->self, key, record, sizeof(*record), &length, 0, NULL) == TUTTI_OK ||
           tti_formation_has_offered(watch, rank);
}

/* The rank whose key is awaited. */
struct leaver {
    const struct tti_formation_watch *watch;
    int32_t size;
    int32_t rank;
};

/* False if the rank has not arrived and the store has refused at least as many processes as are absent. */
static bool may_arrive(const struct leaver *leaver)
{
    const int64_t refused = tti_formation_refused(leaver->watch);
    int64_t absent = 0;
    for (int32_t r = 0; refused > 0 && r < leaver->size; r++) {
        absent += !fetch_hello(leaver->watch, r);
    }
    return refused <= 0 || absent > refused || fetch_hello(leaver->watch, leaver->rank);
}

static tutti_status poll_leaver(void *user, tutti_error *error)
{
    const struct leaver *leaver = user;
    const tutti_status status = tti_formation_poll_member(leaver->watch, leaver->rank, error);
    return status != TUTTI_OK || may_arrive(leaver)
               ? status
               : tti_error_set(error, TUTTI_NO_RESOURCE, "rank %d was refused", leaver->rank);
}

/* Waits until the rank has read the outcome. Does not wait for a rank that is known not to arrive. */
static void await_leave(struct leaver *leaver, const tutti_rendezvous *rv, int64_t deadline)
{
    char key[40];
    char record[1];
    size_t length = 0;
    tutti_error unused;
    snprintf(key, sizeof(key), "seen/%d", leaver->rank);
    if (rv->get(rv->self, key, record, sizeof(record), &length, 0, NULL) == TUTTI_TIMEOUT &&
        poll_leaver(leaver, &unused) == TUTTI_OK) {
        rv->get(rv->self, key, record, sizeof(record), &length, tti_remaining_ms(deadline), NULL);
    }
}

void tti_rendezvous_leave(const struct tti_group_plan *plan, bool is_member, int32_t size, tutti_status outcome)
{
    struct tti_rendezvous *rendezvous = plan->watch.rendezvous;
    const tutti_rendezvous *rv = &rendezvous->table;
    struct leaver leaver = {.watch = &plan->watch, .size = size};
    char key[40];
    if (is_member) {
        snprintf(key, sizeof(key), "seen/%d", plan->rank);
        rv->set(rv->self, key, "", 1, NULL);
    }
    if (!tti_store_served_here(rendezvous->store) || outcome == TUTTI_REVOKED) {
        return;
    }
    const int64_t timeout_ms = tti_setting_number(plan->settings, TTI_SET_TIMEOUT_MS);
    const int64_t wait_ms = timeout_ms >= 0 && timeout_ms < LEAVE_MS ? timeout_ms : LEAVE_MS;
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), wait_ms);
    rendezvous->poll_failures = poll_leaver;
    rendezvous->poll_user = &leaver;
    for (int r = 0; r < size && tti_remaining_ms(deadline) != 0; r++) {
        leaver.rank = r;
        const bool expected = !tti_is_loss(outcome) || fetch_hello(&plan->watch, r);
        if (expected && (r != plan->rank || !is_member)) {
            await_leave(&leaver, rv, deadline);
        }
    }
    rendezvous->poll_failures = NULL;
}

void tti_rendezvous_forget(struct tti_rendezvous *rendezvous, int32_t rank, int32_t size)
{
    const tutti_rendezvous *rv = &rendezvous->table;
    char key[sizeof(rendezvous->name) + 16];
    char record[1];
    size_t length = 0;
    const bool removes = tti_store_can_remove_below(rendezvous->store);
    if (!removes && !tti_store_lasts(rendezvous->store)) {
        return;
    }
    snprintf(key, sizeof(key), "gone/%d", rank);
    tutti_status status = rv->set(rv->self, key, "", 1, NULL);
    for (int32_t r = 0; removes && r < size && status == TUTTI_OK; r++) {
        snprintf(key, sizeof(key), "gone/%d", r);
        status = rv->get(rv->self, key, record, sizeof(record), &length, 0, NULL);
    }
    if (removes && status == TUTTI_OK) {
        snprintf(key, sizeof(key), "%s/", rendezvous->name);
        tti_store_remove_below(rendezvous->store, key);
    }
}
