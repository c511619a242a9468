/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's keys in the store: every key gets the group's name in front. */
#ifndef TTI_CORE_MEMBERSHIP_RENDEZVOUS_H
#define TTI_CORE_MEMBERSHIP_RENDEZVOUS_H

#include <tutti/backend.h>

#include "store/store.h"

/* Called between the slices of a wait, and when the store has ended. OK: the wait goes on. Else the cause that ends the
 * wait, with its sentence in *error (not NULL). */
typedef tutti_status (*tti_poll_function)(void *user, tutti_error *error);

struct tti_rendezvous {
    tutti_rendezvous table; /* table.self points back here */
    struct tti_store *store;
    char name[64];
    tti_poll_function poll_failures; /* NULL: waits end only at their deadline. Set after open */
    void *poll_user;
    int64_t poll_interval_ms; /* the first slice of a wait */
};

/* Takes a reference on the store. The struct must stay where it is until tti_rendezvous_close. */
void tti_rendezvous_open(struct tti_rendezvous *r, struct tti_store *store, const char *name);

/* Reads a range of the group's keys as `table.get` reads one: see tti_store_get_range. `stem` is without the group's
 * name. */
tutti_status tti_rendezvous_get_range(struct tti_rendezvous *r, struct tti_store_range *range, int64_t timeout_ms,
                                      tutti_error *error);

void tti_rendezvous_close(struct tti_rendezvous *r);

#endif
