/* SPDX-License-Identifier: BSD-3-Clause */
/* A group as one rank sees it, and the table that turns handles into groups. */
#ifndef TTI_CORE_GROUP_H
#define TTI_CORE_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "core/async/events.h"
#include "core/call/lane.h"
#include "core/group/handles.h"
#include "core/membership/formation_watch.h"
#include "core/membership/rendezvous.h"
#include "core/membership/same_host.h"
#include "core/messages/messages.h"
#include "core/settings/settings.h"
#include "device/device.h"
#include "diag/flight.h"

/* How often a list of ranks has been made into a group: part of the new group's name at the rendezvous. */
struct tti_list_count {
    struct tti_list_count *next;
    uint64_t hash;
    uint32_t count;
};

/* What a group knows of its recovery: see recover.c. */
struct tti_recovery {
    _Atomic uint32_t aborts; /* so far */
    _Atomic bool agreeing;   /* some thread is in tutti_group_agree ... */
    _Atomic bool shrinking;  /* ... or in tutti_group_shrink, whose the rest is: */
    bool unconfirmed;        /* it has begun to agree whether all have the new group, and has not heard the end */
    bool missed;             /* the others have a new group, with this rank in it, which it has dropped */
    uint64_t *out;           /* ranks that a shrink has gone on without; NULL: it has not come to that */
};

struct tti_group {
    tutti_group *handle;
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int64_t timeout_ms;
    DLDevice device;
    const struct tti_device *where; /* the functions of that device; the host's for a CPU */
    int32_t local_rank;
    int32_t *global_ranks; /* size entries: ranks in the world */
    int32_t served_by;     /* who serves the store: a rank in the world; -1: none of them, or not known */
    const tutti_backend *backend;
    void *state;
    /* The engine for what `backend` does not do, with tensors in host memory: `backend` itself, or one that was opened
     * beside it; NULL: there is none. */
    const tutti_backend *host_backend;
    void *host_state;
    struct tti_rendezvous host_rendezvous; /* of the one beside */
    struct tti_staging *staging;           /* groups that have to do with a device; else NULL */
    bool takes_device;                     /* `backend` takes tensors of the device as they are */
    bool stages_to_device;                 /* tensors lie in host memory, but `backend` works on a device */
    struct tti_comparison *comparison;     /* by which calls are compared before they run; NULL: there is none */
    bool compares_all;                     /* every collective is compared; else only those with TUTTI_CANCELLABLE */
    struct tti_pool *pool;                 /* memory of tutti_alloc, if the backend has no heap */
    struct tti_settings settings;
    struct tti_flight_group *flight;         /* where its operations are recorded; NULL: nowhere */
    char name_suffix[16];                    /* in its name there: see struct tti_group_plan */
    struct tti_rendezvous rendezvous;        /* private keys of this group; keeps the store */
    struct tti_wait_registry *wait_registry; /* for engines that cannot tell who is missing; else NULL */
    struct tti_lane_queue lane_queues[TUTTI_MAX_LANES];
    struct tti_messages messages;
    pthread_mutex_t callback_lock; /* callbacks of a group run one at a time */
    struct tti_events_list events;
    pthread_mutex_t names_lock; /* the counters below */
    struct tti_list_count *lists;
    uint32_t splits;
    char (*host_names)[64];       /* of each rank's host, if they are on several; else NULL */
    const char *socket_directory; /* see tutti_open_info; a setting */
    struct tti_kept_pidfds pidfds;
    char *shm_unused_reason;      /* why "auto" has not taken shared memory; NULL: it has, or there is nothing to say */
    struct tti_recovery recovery; /* `out`: under names_lock, too */
};

/* The last step of making a group is a record TTI_GROUP_READY/RANK. Who has put it owes the others nothing more. */
#define TTI_GROUP_READY "ready"

/* Everything that two ways of making a group differ in. */
struct tti_group_plan {
    int32_t rank;
    int32_t size;
    int32_t local_rank;        /* picks one of several devices */
    DLDevice device;           /* filled in when the group is opened: of tensors, */
    DLDevice engine_device;    /* and of the engine, another one if host tensors are to be copied to a device */
    tutti_operation operation; /* INIT, CREATE, SPLIT, SHRINK, GROW or JOIN, for messages */
    struct tti_group *parent;  /* for CREATE, SPLIT and SHRINK: the lookout names the members by their ranks there */
    void *native_communicator;
    struct tti_settings settings;
    struct tti_store *store;
    char name[64];        /* unique among the groups of the store */
    char name_suffix[16]; /* behind it in flight records: unique in the job; groups made from this one inherit it */
    int64_t timeout_ms;   /* of the group, if the settings' is that of its opening: tti_group_plan_time; else 0 */
    struct tti_formation_watch watch;
};

/* Opening may take as long as that (-1: for ever), whatever the deadline of the group. After the settings have been resolved. */
void tti_group_plan_time(struct tti_group_plan *plan, int64_t opening_ms);

/* Meets the other members, agrees on a backend, opens it, makes sure that all have; or fails on all of them. */
tutti_status tti_group_open(struct tti_group_plan *plan, tutti_group **group, tutti_error *error);

/* For who lacks what it takes to begin with that: tells the others. `error` is complete. */
void tti_group_decline(struct tti_group_plan *plan, tutti_status why, const tutti_error *error);

/* The table of groups; see handles.h. */
extern struct tti_handle_table tti_groups;

static inline struct tti_group *tti_group_acquire(tutti_group *handle, tutti_status *why)
{
    return tti_handles_acquire(&tti_groups, handle, why);
}

static inline void tti_group_release(struct tti_group *group)
{
    tti_handles_release(&tti_groups, group->handle);
}

/* For the last user, who has acquired it: ends and frees the group. BUSY: there are others; then it is released only. */
tutti_status tti_group_end(struct tti_group *group);

/* Closes the engines. Nothing is pending any more. */
void tti_group_close(struct tti_group *group);

/* Frees a group that was retired, or never inserted. */
void tti_group_free(struct tti_group *group);

/* Why the group has failed, whichever engine knows; OK if it has not. */
tutti_status tti_group_failure(const struct tti_group *group, tutti_error *error);

/* Whether a rank is lost, as far as is known here: OK, PEER_LEFT, PEER_DEAD or PEER_CRASHING. */
tutti_status tti_group_peer_status(const struct tti_group *group, int32_t rank, tutti_error *error);

/* After an operation has failed: if one engine has failed, so does the one beside it. */
void tti_group_share_failure(struct tti_group *group, int32_t lane);

/* Fails the group, if its engines can; false: they cannot. See tutti_backend_ops.abort. */
bool tti_group_abort(struct tti_group *group, int32_t lane, const tutti_error *cause);

/* Whether tensors lie on a device. */
static inline bool tti_group_on_device(const struct tti_group *group)
{
    return group->where->type != kDLCPU;
}

/* What an engine that was opened promises: TUTTI_CAP_* bits. */
static inline uint32_t tti_engine_capabilities(const tutti_backend *engine, void *state)
{
    return engine->ops->capabilities ? engine->ops->capabilities(state) : engine->capabilities;
}

/* What the group promises: TUTTI_CAP_* bits. */
uint32_t tti_group_capabilities(const struct tti_group *group);

/* Nothing is pending and nobody can begin anything: ends the threads that served the group. */
void tti_group_quiesce(struct tti_group *group);

#endif
