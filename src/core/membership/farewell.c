/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that serves the rendezvous hears from every member that it needs it no more for this group, before it goes on:
 * it may be about to end, in good order or with an error, and would take the others down in the middle of hearing why.
 * After an error it gives ranks that have not come yet a moment too, unless that is the error: that one of them does not come.
 * Who has aborted waits for nobody: the others will meet elsewhere.
 */
#include "core/membership/farewell.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/group/group.h"
#include "core/group/resolve.h"

#define FAREWELL_MS 5000 /* for ranks that died between their hello and the end, or are on their way */

/* Of the group, once it is there. */
static int64_t timeout_of(const struct tti_group_plan *plan)
{
    return plan->timeout_ms != 0 ? plan->timeout_ms : tti_setting_number(&plan->settings, TTI_SET_TIMEOUT_MS);
}

static bool has_come(const struct tti_lookout *lookout, int32_t rank)
{
    const tutti_rendezvous *rv = &lookout->place->table;
    char key[40];
    struct tti_hello unused;
    struct tti_hello *record = lookout->met && rank < lookout->size ? &lookout->met[rank] : &unused;
    size_t length = 0;
    snprintf(key, sizeof(key), "hello/%d", rank);
    return rv->get(rv->self, key, record, sizeof(*record), &length, 0, NULL) == TUTTI_OK;
}

/* Somebody who is waited for, whatever becomes of the others. */
struct guest {
    const struct tti_lookout *lookout;
    int32_t size;
    int32_t rank;
};

/* Who has not come does not, if all those have been turned away at the door. */
static bool may_come(const struct guest *guest)
{
    const int64_t turned_away = tti_lookout_turned_away(guest->lookout);
    int64_t absent = 0;
    for (int32_t r = 0; turned_away > 0 && r < guest->size; r++) {
        absent += !has_come(guest->lookout, r);
    }
    return turned_away <= 0 || absent > turned_away || has_come(guest->lookout, guest->rank);
}

static tutti_status look_for_guest(void *user, tutti_error *error)
{
    const struct guest *guest = user;
    const tutti_status status = tti_lookout_look_at(guest->lookout, guest->rank, error);
    return status != TUTTI_OK || may_come(guest)
               ? status
               : tti_error_set(error, TUTTI_NO_RESOURCE, "rank %d has been turned away", guest->rank);
}

/* Waits until the guest has seen how it went. Nobody waits a turn for one that is known not to come. */
static void await_guest(struct guest *guest, const tutti_rendezvous *rv, int64_t deadline)
{
    char key[40];
    char record[1];
    size_t length = 0;
    tutti_error unused;
    snprintf(key, sizeof(key), "seen/%d", guest->rank);
    if (rv->get(rv->self, key, record, sizeof(record), &length, 0, NULL) == TUTTI_TIMEOUT &&
        look_for_guest(guest, &unused) == TUTTI_OK) {
        rv->get(rv->self, key, record, sizeof(record), &length, tti_remaining_ms(deadline), NULL);
    }
}

void tti_farewell(const struct tti_group_plan *plan, bool came, int32_t size, tutti_status outcome)
{
    struct tti_rendezvous *place = plan->lookout.place;
    const tutti_rendezvous *rv = &place->table;
    struct guest guest = {.lookout = &plan->lookout, .size = size};
    char key[40];
    if (came) {
        snprintf(key, sizeof(key), "seen/%d", plan->rank);
        rv->set(rv->self, key, "", 1, NULL);
    }
    if (!tti_store_served_here(place->store) || outcome == TUTTI_REVOKED) {
        return;
    }
    const int64_t patience = timeout_of(plan) >= 0 && timeout_of(plan) < FAREWELL_MS ? timeout_of(plan) : FAREWELL_MS;
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), patience);
    place->look = look_for_guest;
    place->look_user = &guest;
    for (int r = 0; r < size; r++) {
        guest.rank = r;
        const bool expected = !tti_is_loss(outcome) || has_come(&plan->lookout, r);
        if (expected && (r != plan->rank || !came)) {
            await_guest(&guest, rv, deadline);
        }
    }
    place->look = NULL;
}
