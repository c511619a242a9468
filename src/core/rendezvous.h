/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's private corner of the store: every key gets the group's name in front. */
#ifndef TTI_CORE_RENDEZVOUS_H
#define TTI_CORE_RENDEZVOUS_H

#include <tutti/backend.h>

#include "store/store.h"

struct tti_rendezvous {
    tutti_rendezvous table; /* table.self points back here */
    struct tti_store *store;
    char name[64];
};

/* Takes a reference on the store. The struct must stay where it is until tti_rendezvous_close. */
void tti_rendezvous_open(struct tti_rendezvous *r, struct tti_store *store, const char *name);
void tti_rendezvous_close(struct tti_rendezvous *r);

#endif
