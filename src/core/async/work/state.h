/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a work consists of, for the files that run works: pool.c, stage.c, work.c, call/lane.c,
 * core/messages/messages.c.
 *
 * Its state word holds the stage and flags. Stages go forward only:
 *     MADE      being filled by the thread that starts it
 *     QUEUED    waits in the lane, is open and not begun, or is the application's to complete: can be cancelled
 *     ARRIVED   open, and has arrived (backend `start`)
 *     POSTED    messages that no thread has claimed
 *     RUNNING   claimed: only the claiming thread uses it (an ARRIVED or POSTED one may be given back)
 *     FINISHED  status and error are there, and its callback is being called; left out without one
 *     ENDED     published
 */
#ifndef TTI_CORE_ASYNC_WORK_STATE_H
#define TTI_CORE_ASYNC_WORK_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <tutti/work.h>

#include "core/async/token.h"
#include "core/call/lane_state.h"
#include "core/call/task.h"
#include "core/messages/transfer.h"

struct tti_batch;
struct tti_watch;

enum {
    TTI_STAGE_FREE,
    TTI_STAGE_MADE,
    TTI_STAGE_QUEUED,
    TTI_STAGE_ARRIVED,
    TTI_STAGE_POSTED,
    TTI_STAGE_RUNNING,
    TTI_STAGE_FINISHED,
    TTI_STAGE_ENDED,
    TTI_STAGE_MASK = 15,
    TTI_FLAG_SLEEPER = 1 << 4,     /* a thread sleeps on the state */
    TTI_FLAG_WATCHED = 1 << 5,     /* there are watches */
    TTI_FLAG_CANCEL = 1 << 6,      /* to be cancelled when the lane reaches it */
    TTI_FLAG_ENQUEUED = 1 << 8,    /* a tutti_queue owns the handle */
    TTI_FLAG_EVENTFD = 1 << 9,     /* `descriptor` is open */
    TTI_FLAG_OVERDUE = 1 << 10,    /* its deadline passed while it was in the queue */
    TTI_FLAG_PUSHED = 1 << 11,     /* the worker has been notified for it */
    TTI_FLAG_APPLICATION = 1 << 12 /* the application completes it */
};

/* A tensor with shape and strides that live as long as the work. */
struct tti_kept_tensor {
    DLTensor tensor;
    int64_t shape[TUTTI_MAX_NDIM];
    int64_t strides[TUTTI_MAX_NDIM];
};

/* What runs a work that is under way: a lane, or the messages of a group. The caller keeps the group of the work
 * alive. */
struct tti_work_runner {
    bool (*wait)(struct tti_work *w, int64_t until_ns); /* true: it has ended; false at until_ns */
    bool (*try_finish)(struct tti_work *w);             /* true: it has ended; does not wait */
    void (*push)(struct tti_work *w);                   /* has the worker end it */
    bool (*cancel)(struct tti_work *w); /* false: too late; does not wait. NULL: tti_work_mark_cancelled */
};

struct tti_work {
    _Alignas(16) _Atomic uint64_t word; /* generation 32 | handle alive 1 | users 31, see pool.c */
    uint32_t index;
    _Atomic uint32_t next_free;
    uint32_t epoch;
    uint32_t capabilities; /* TUTTI_CAP_*: what cancelling needs */
    _Atomic uint32_t state;
    /* The handle, since the group may be gone after the end. relaxed: see tti_work_pending */
    _Atomic(tutti_group *) group;
    const struct tti_work_runner *runner; /* NULL: the application completes the work */
    tutti_status status;
    int64_t newest_events; /* object of the group when it started; 0: there was none */
    bool worker_only;      /* only the lane's thread runs it, with its callback and event handlers */
    bool has_result;
    bool is_owned; /* a persistent operation uses the handle again and again, and nobody else ends its life */
    bool is_kept;  /* started again and again (tti_start_again): its task needs nothing but the engine of its group, and
                     nothing reads its error if it ends OK, unless an event does */
    struct tti_task task;
    struct tti_deferred deferred; /* the end of a work that the application completes */
    struct tti_lane_waiter lane_waiter;
    _Atomic int64_t deadline_ns; /* relaxed: read by the timer for a work that may just be ending */
    struct tti_token_link token;
    pthread_mutex_t watch_lock;
    struct tti_watch *watches;
    struct tti_watch *notifying; /* the watch that is being notified */
    int descriptor;              /* eventfd */
    int64_t operation_id;
    struct tti_flight_tally *tally; /* the last user gives it back: NULL, or left here by the owner of the handle */
    struct tti_kept_tensor kept[3]; /* of the sides, and of the result */
    int64_t *lists;                 /* counts and displacements; kept for the next use of this work */
    size_t lists_capacity;
    /* messages */
    struct tti_transfer transfers[2];
    struct tti_transfer *first;
    struct tti_batch *batch;      /* owns the transfers, if it is one */
    void *posted;                 /* the backend's */
    struct tti_work *next_posted; /* these under the lock of the messages */
    struct tti_work *previous_posted;
    bool is_posted;
    bool was_posted;
    pthread_mutex_t post_lock; /* while they are posted; a token that fires meanwhile waits for the outcome */
    bool is_prevented;         /* a token has fired before; under post_lock */
};

static inline uint32_t tti_stage(uint32_t state)
{
    return state & TTI_STAGE_MASK;
}

static inline tutti_group *tti_work_group_handle(const struct tti_work *w)
{
    return atomic_load_explicit(&w->group, memory_order_relaxed); /* ordered by the acquire of the work's handle */
}

#endif
