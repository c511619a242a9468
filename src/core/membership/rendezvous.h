/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's private corner of the store: every key gets the group's name in front. */
#ifndef TTI_CORE_RENDEZVOUS_H
#define TTI_CORE_RENDEZVOUS_H

#include <tutti/backend.h>

#include "store/store.h"

/* Asked from time to time while something is waited for, and when the store has ended: whether that is still worth it. Not
 * OK: why it is not, and *error (not NULL) says so. */
typedef tutti_status (*tti_poll_function)(void *user, tutti_error *error);

struct tti_rendezvous {
    tutti_rendezvous table; /* table.self points back here */
    struct tti_store *store;
    char name[64];
    tti_poll_function poll_failures; /* NULL: only the time limits a wait. Set after open */
    void *poll_user;
    int64_t poll_interval_ms; /* the least that passes between two looks */
};

/* Takes a reference on the store. The struct must stay where it is until tti_rendezvous_close. */
void tti_rendezvous_open(struct tti_rendezvous *r, struct tti_store *store, const char *name);
void tti_rendezvous_close(struct tti_rendezvous *r);

#endif
