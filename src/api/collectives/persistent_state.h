/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives: a list of operations whose descriptors were made at init.
 *
 *   persistent.c        the object: init, release, and who holds it
 *   persistent_start.c  start, wait and cancel: a work for each operation
 *   persistent_run.c    run: the engine for each operation, or start and wait
 *
 * start, run and release have the object alone, by its handle (TTI_HANDLE_ALONE). So `works` changes only there, and
 * wait and cancel read it without the lock. The first wait behind the end takes the outcome and releases the works that
 * are not kept, with the lock. If all works are kept and have ended OK, each wait only clears RUNNING, without it.
 */
#ifndef TTI_API_COLLECTIVES_PERSISTENT_STATE_H
#define TTI_API_COLLECTIVES_PERSISTENT_STATE_H

#include <tutti/persistent.h>

#include <pthread.h>
#include <stdatomic.h>

#include "api/group/blocks.h"
#include "base/process/fork.h"
#include "core/async/work/state.h"
#include "core/call/cache/signature.h"
#include "core/group/handles.h"

/* Each of them keeps run from calling the engine at once. */
enum {
    TTI_PERSISTENT_BY_WORKS = 1, /* an operation needs more than the engine; constant since init */
    TTI_PERSISTENT_RUNNING = 2,  /* started, and no wait has found the end; set alone, cleared by any wait */
    TTI_PERSISTENT_FREED = 4     /* memory of one of its tensors has been freed */
};

struct tti_persistent_operation {
    struct tti_signature signature; /* its tensors are the kept ones; NULL: this rank has none */
    tutti_op op;                    /* checked; used again by each run */
    bool is_compact;                /* no stand-in for a tensor is needed */
    bool is_direct;                 /* it needs nothing but the engine of its group */
    struct tti_work *kept;          /* of the first start of a direct one, for all later ones; NULL: none yet */
    struct tti_flight_tally *tally; /* NULL: runs are recorded one by one */
    struct tti_kept_tensor input;
    struct tti_kept_tensor output;
};

struct tti_persistent {
    tutti_persistent *handle;
    _Atomic uint64_t *users; /* of the handle: its word */
    tutti_group *group;
    struct tti_cached_handle cached_group;
    /* of the group, to be used while it is held */
    struct tti_lane_queue *lane;
    tutti_status (*run)(void *state, tutti_op *op, tutti_error *error);
    void *state;
    tutti_call call;                      /* checked */
    struct tti_block_user user;           /* of heap memory */
    _Atomic uint32_t marks;               /* TTI_PERSISTENT_* */
    size_t count;                         /* of operations */
    struct tti_persistent_operation *end; /* behind the last one */
    tutti_work **works;                   /* one for each operation */
    size_t started;                       /* works of the last start */
    bool all_kept;                        /* later starts need no other works */
    tutti_status refused;                 /* of the operation that could not be started behind them, or OK */
    tutti_error refusal;
    pthread_mutex_t lock;
    bool has_run;
    tutti_status status; /* of the last run */
    tutti_error outcome;
    tutti_error cause; /* of the operation that a run has just ended */
    struct tti_persistent_operation operations[];
};

extern struct tti_handle_table tti_persistents;

/* Reports the cause of operation `index`, with its place in a list. */
void tti_persistent_report(const char *function, size_t count, size_t index, const tutti_error *cause,
                           tutti_error *error);

/* The object, shared with other threads, or NULL with the status and a sentence. */
struct tti_persistent *tti_persistent_hold(tutti_persistent *handle, const char *function, tutti_error *error,
                                           tutti_status *status);

static inline void tti_persistent_drop(struct tti_persistent *p)
{
    tti_handles_release(&tti_persistents, p->handle);
}

static inline void tti_persistent_drop_alone(struct tti_persistent *p)
{
    /* release: as in tti_handles_release */
    atomic_fetch_sub_explicit(p->users, TTI_HANDLE_ALONE, memory_order_release);
}

/* The same with the caller as its only user; NULL: tti_persistent_refuse_alone finds out why. */
static inline struct tti_persistent *tti_persistent_hold_alone(tutti_persistent *handle)
{
    const struct tti_cached_handle known = tti_handles_cache(&tti_persistents, handle);
    if (((uintptr_t)handle & 15) != TTI_KIND_PERSISTENT || !tti_cached_handle_retain_alone(&known)) {
        return NULL;
    }
    struct tti_persistent *p = known.slot->object;
    /* relaxed: see tti_fork_count */
    if (known.slot->epoch != atomic_load_explicit(&tti_fork_count, memory_order_relaxed)) {
        tti_persistent_drop_alone(p);
        return NULL;
    }
    return p;
}

/* Reports why the caller is not its only user, and returns that. */
tutti_status tti_persistent_refuse_alone(tutti_persistent *handle, const char *function, tutti_error *error);

static inline bool tti_persistent_is(const struct tti_persistent *p, uint32_t mark)
{
    /* acquire: pairs with the release in tti_persistent_unmark by a thread that has waited, and has seen the results */
    return (atomic_load_explicit(&p->marks, memory_order_acquire) & mark) != 0;
}

static inline void tti_persistent_mark(struct tti_persistent *p, uint32_t mark)
{
    /* relaxed: the handle, which the caller has alone, or the program orders what the mark stands for */
    atomic_fetch_or_explicit(&p->marks, mark, memory_order_relaxed);
}

static inline void tti_persistent_unmark(struct tti_persistent *p, uint32_t mark)
{
    /* release: pairs with the acquire in tti_persistent_is */
    atomic_fetch_and_explicit(&p->marks, ~mark, memory_order_release);
}

/* persistent_start.c, for run. The first has the object alone. */
tutti_status tti_persistent_start_all(struct tti_persistent *p, const char *function, tutti_error *error);
tutti_status tti_persistent_wait_all(struct tti_persistent *p, int64_t limit_ms, const char *function,
                                     tutti_error *error);

#endif
