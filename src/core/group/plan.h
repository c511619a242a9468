/* SPDX-License-Identifier: BSD-3-Clause */
/* What a group is to become, while its members form it. Types only. */
#ifndef TTI_CORE_GROUP_PLAN_H
#define TTI_CORE_GROUP_PLAN_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "core/membership/rendezvous.h"
#include "core/settings/settings.h"

struct tti_group;
struct tti_hello;
struct tti_store;

/* Polling for failures while ranks form a group: see formation_watch.c. Members count from 0 in the new group. */
struct tti_formation_watch {
    const struct tti_group
        *parent;          /* the group that the first `count` members come from; NULL: no member is known yet */
    const int32_t *ranks; /* their ranks in it; NULL: 0, 1, 2, ... */
    int32_t count;
    int64_t deadline_ns;    /* of the whole opening; 0: each wait has its own */
    int64_t timeout_ms;     /* from its beginning; -1: no limit */
    tti_poll_function poll; /* another cause that ends the opening; NULL: there is none */
    void *poll_user;
    /* tti_formation_begin fills in the rest. */
    struct tti_rendezvous *rendezvous;
    struct tti_hello *hellos; /* the members' records, as they are read, zeros before; NULL: there are none */
    int32_t self;             /* this rank's number among them */
    int64_t polled_ns;        /* when their processes were polled last, */
    int32_t polled;           /* and how far: the next one is this many behind `self` */
    int32_t size;             /* how many ranks join at the rendezvous; INT32_MAX: not known */
    char record_key[24];      /* a member that has put `record_key`/MEMBER has done its part */
    int32_t server;           /* the member that serves the store, as `parent` knows; or -1 */
    bool (*has_offered)(void *offers,
                        int32_t member); /* whether a member has done its part without a record; or NULL */
    void *offers;
    const struct tti_group *open; /* the new group, once its engines are open: they poll, too; NULL: not yet */
    bool accepting;               /* members are awaited that may not have reached the store yet */
    int64_t reported_ns;          /* when a reason was first read that the records show as well; 0: none was */
    int64_t refused_before;       /* processes that the store had refused before, if it is served here */
};

/* The last step of forming a group is a record TTI_GROUP_READY/RANK. A rank that has put it has done its part. */
#define TTI_GROUP_READY "ready"

/* Ranks that can meet at a rendezvous: each reads a range of records. */
#define TTI_GROUP_RANKS_MAX (TTI_STORE_RANGE_MAX + 1)

/* Everything that two procedures that form a group differ in. */
struct tti_group_plan {
    int32_t rank;
    int32_t size;
    int32_t local_rank;        /* picks one of several devices */
    DLDevice device;           /* filled in when the group is opened: of tensors, */
    DLDevice engine_device;    /* and of the engine, another one if host tensors are to be copied to a device */
    tutti_operation operation; /* INIT, CREATE, SPLIT, SHRINK, GROW or JOIN, for messages */
    struct tti_group *parent;  /* for CREATE, SPLIT and SHRINK: the watch names the members by their ranks there */
    void *native_communicator;
    struct tti_settings *settings;
    struct tti_store *store;
    uint64_t list;        /* of a group from a list, or a part of a split: a hash of the parent's name and the ranks, */
    uint32_t list_serial; /* and how often the list has been made into a group, or the number of the split */
    char name[64];        /* unique among the groups of the store */
    char name_suffix[16]; /* behind it in flight records: unique in the job; groups made from this one inherit it */
    struct tti_formation_watch watch; /* has the deadline. The settings have the timeout of the group's calls */
};

#endif
