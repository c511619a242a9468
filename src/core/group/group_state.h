/* SPDX-License-Identifier: BSD-3-Clause */
/* A group as one rank sees it. Types only, so that every file of the core may include it; group.c makes and ends
 * groups. */
#ifndef TTI_CORE_GROUP_GROUP_STATE_H
#define TTI_CORE_GROUP_GROUP_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <tutti/backend.h>

#include "core/async/deferred_ends_state.h"
#include "core/async/events_state.h"
#include "core/call/lane_state.h"
#include "core/membership/rendezvous.h"
#include "core/messages/messages_state.h"
#include "core/settings/settings.h"
#include "device/device.h"

struct tti_comparison;
struct tti_flight_group;
struct tti_pool;
struct tti_staging;
struct tti_wait_registry;

/* How often a list of ranks has been made into a group: part of the new group's name at the rendezvous. */
struct tti_list_count {
    struct tti_list_count *next;
    uint64_t hash;
    uint32_t count;
};

/* What a group knows of its recovery: see recover.c. */
struct tti_recovery {
    _Atomic uint32_t aborts; /* so far */
    _Atomic bool agreeing;   /* a thread is in tutti_group_agree ... */
    _Atomic bool shrinking;  /* ... or in tutti_group_shrink, which alone uses the rest: */
    bool unconfirmed;        /* the agreement whether all ranks have the new group has begun and not ended here */
    bool missed;             /* the others have a new group with this rank in it, but this rank has dropped it */
    uint64_t *out;           /* ranks that a shrink has gone on without; NULL: none was decided on */
};

/* The processes of other PID namespaces whose pidfds a group has: see base/process/pidfds.h. */
struct tti_kept_pidfds {
    uint64_t *instances; /* NULL: none */
    int32_t count;
    bool offered; /* this rank's lies in the store */
};

struct tti_group {
    tutti_group *handle;
    int32_t rank;
    int32_t size;
    int32_t lanes;
    int64_t timeout_ms;
    DLDevice device;
    const struct tti_device *device_ops; /* of that device; the host's for a CPU */
    int32_t local_rank;
    int32_t *global_ranks; /* size entries: ranks in the world */
    int32_t served_by;     /* the rank in the world that serves the store; -1: no rank does, or it is not known */
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
    _Atomic int32_t in_use; /* relaxed: an engine still uses the tensors of an operation that has failed (tutti_op) */
    struct tti_settings *settings;
    struct tti_flight_group *flight;         /* where its operations are recorded; NULL: they are not */
    char name_suffix[16];                    /* in its name there: see struct tti_group_plan */
    struct tti_rendezvous rendezvous;        /* private keys of this group; keeps the store */
    struct tti_wait_registry *wait_registry; /* for engines that cannot say which rank is missing; else NULL */
    struct tti_lane_queue lane_queues[TUTTI_MAX_LANES];
    void *wire_memory[TUTTI_MAX_LANES]; /* used by the thread that owns the lane: see core/call/wire.c */
    struct tti_messages messages;
    pthread_mutex_t callback_lock; /* callbacks of a group run one at a time */
    struct tti_deferred_ends deferred_ends;
    struct tti_events_list events;
    pthread_mutex_t names_lock; /* the counters below */
    struct tti_list_count *lists;
    uint32_t splits;              /* so far */
    uint32_t splitting;           /* threads */
    char (*host_names)[64];       /* of each rank's host, if the ranks are on several; else NULL */
    const char *socket_directory; /* see tutti_open_info; a setting */
    struct tti_kept_pidfds pidfds;
    char *shm_unused_reason; /* why "auto" has not taken shared memory; NULL: it has, or there is no reason to give */
    struct tti_recovery recovery; /* `out`: under names_lock, too */
};

/* Behind every operation that has failed. */
static inline void tti_group_note_in_use(struct tti_group *group, const tutti_op *op)
{
    if (op->in_use) {
        atomic_store_explicit(&group->in_use, 1, memory_order_relaxed);
    }
}

/* Whether tensors lie on a device. */
static inline bool tti_group_on_device(const struct tti_group *group)
{
    return group->device_ops->type != kDLCPU;
}

#endif
