/* SPDX-License-Identifier: BSD-3-Clause */
/* The private state of a rank, its lanes, and access to the segments. */
#ifndef TTI_ENGINE_LANE_H
#define TTI_ENGINE_LANE_H

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/failure/agreement.h"
#include "engine/memory/heap.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

/* Who still has to read a span of the stage, and how far they must have come before it may be written again. */
struct tti_stamp {
    uint64_t end; /* position behind the span */
    uint64_t call;
    uint64_t phase; /* of that call, or TTI_PHASE_NEXT */
    int reader;     /* -1: all peers */
};
#define TTI_STAMPS 64u

/* A rank's ring of bytes for what its peers shall read. Positions count bytes from the beginning of time, gaps included:
 * position modulo ring is the place. */
struct tti_stage {
    uint64_t base;      /* of the ring, in the lane's memory */
    uint64_t ring;      /* its bytes, a power of two */
    uint64_t committed; /* of these, from the beginning: may be written */
    uint64_t head;      /* position of the first span of the next call, before it is made to fit */
    uint64_t freed;     /* everything before has been read by all */
    uint64_t first;     /* of the current call: position of span 0 ... */
    uint64_t stride;    /* ... and bytes of each span */
    uint32_t stamps_first;
    uint32_t stamps_count;
    struct tti_stamp stamps[TTI_STAMPS];
};

/* How a call's data travel. */
enum tti_class {
    TTI_CLASS_LINE,    /* in the arrival lines of all ranks                       */
    TTI_CLASS_PACKETS, /* likewise, or in the packets beside, of those that need it */
    TTI_CLASS_LARGE    /* through stages, or not at all                           */
};

/* tutti_op.prepared: what follows from the operation and the group alone, and is kept with an operation that is run again. The
 * first two words are the descriptor. */
enum {
    TTI_PREPARED_CLASS =
        2, /* the class, whether it announces its end, and from bit 8 on the bytes of an all_reduce in lines */
    TTI_PREPARED_FOLD = 3 /* address of the function of an all_reduce in lines, 0 for all others */
};
#define TTI_PREPARED_CLASSES    UINT64_C(3)
#define TTI_PREPARED_ANNOUNCES  UINT64_C(4) /* it has to end by announcing TTI_PHASE_FINAL */
#define TTI_PREPARED_BYTES_FROM 8

/* How a large call ran: what tti_engine_algorithm says of it. */
enum tti_algorithm {
    TTI_ALGORITHM_UNDECIDED,
    TTI_ALGORITHM_ONE_SHOT,   /* everybody folds everything                         */
    TTI_ALGORITHM_TWO_SHOT,   /* everybody folds a slice and copies the others' out */
    TTI_ALGORITHM_STAGED,     /* through the stages, in one step                    */
    TTI_ALGORITHM_PIPELINED,  /* the same or in two shots, in several steps         */
    TTI_ALGORITHM_ZERO_COPY,  /* where the tensors lie                              */
    TTI_ALGORITHM_SINGLE_COPY /* likewise, and the kernel copies from some of them  */
};

/* A small call may run in two steps: its arrival first, and later the rest. */
enum tti_half {
    TTI_HALF_BOTH,
    TTI_HALF_ARRIVAL, /* the first wait returns BUSY */
    TTI_HALF_REST     /* its arrival is there already */
};

struct tti_lane {
    /* what small calls use comes first */
    _Alignas(64) struct tti_engine *engine;
    int index;
    unsigned char **controls;         /* size entries: each rank's tti_lane_control of this lane */
    const _Atomic uint64_t *sleepers; /* who sleeps on this rank's words of this lane */
    uint32_t digest;                  /* a sum over earlier calls that did not wait for all, see arrival.c */
    uint32_t alarm_seen;              /* value of the alarm word when it was last looked into */
    enum tti_class class;             /* of this call */
    enum tti_algorithm algorithm;     /* of this call, if it is large */
    bool exposed;                     /* what others need of this rank's tensors they can reach where it lies */
    bool named;                       /* some rank has named a tensor that it exposes */
    bool streams;                     /* the output of this call goes past the caches */
    bool announces;                   /* this call has to end by announcing TTI_PHASE_FINAL */
    bool advances;                    /* it adds to the digest when it ends */
    bool diverged;                    /* `reported_delta` and `excused` hold something */
    bool late_mismatch;               /* this call ends with MISMATCH, which *error says already, but runs to its end */
    bool has_mismatched; /* some ranks have called something else than this call, which goes on: `mismatched` */
    enum tti_half half;  /* which part of this call is wanted now */
    int32_t background;  /* of the call for which spin_polls and yield_ns have been set: see tti_wait_begin */
    unsigned spin_polls; /* how the current call waits */
    unsigned slow_waits; /* so far: some of them are trials, see wait.c */
    int64_t yield_ns;
    uint64_t call;         /* number of the current call, from 1 */
    uint64_t credit;       /* every peer has arrived at this call */
    uint64_t bytes_copied; /* bytes loaded and stored by copies and folds, so far */
    uint64_t input;        /* names of the exposed tensors, or with threads their addresses; 0 = private */
    uint64_t output;
    unsigned char *unpacked;  /* TTI_INLINE_MOST bytes for each rank; NULL if no call uses packets */
    void **targets;           /* size entries, for folds with several results */
    const void **sources;     /* size entries, for folds */
    double *scales;           /* size entries */
    uint64_t *starts;         /* size entries: place of each rank's span 0 in this call */
    unsigned char *populated; /* size entries: which rings are mapped for reading, a bit for each */
    unsigned char **inputs;   /* size entries: every rank's exposed tensors as this rank sees them, or NULL */
    unsigned char **outputs;
    /* size entries each: see arrival.c */
    uint32_t *reported_delta; /* what a peer's digest is beyond the own one for reasons that this rank has reported */
    bool *mismatch_reported;  /* what it is beyond it when it is seen next has been reported, too */
    bool *mismatched;         /* ranks that have called something else in this call */
    bool *remote; /* size entries: those addresses are of the rank's process, not of this one: see single_copy.c */
    /* the current call */
    uint64_t needed_call; /* while it needs credit: the earlier call whose arrivals it waits for; else 0 */
    const tutti_op *op;
    tutti_error *error;
    uint64_t descriptor[2];
    int64_t started_ns; /* 0 until the first clock read */
    int64_t deadline_ns;
    /* what only large calls and long waits use */
    struct tti_stage stage;          /* the ring in use ... */
    struct tti_stage spare;          /* ... and the other one */
    uint32_t publications;           /* of large calls */
    double publish_ticks;            /* what it takes to change a line that another rank has read: a running average */
    uint8_t halvings[TTI_MAX_RANKS]; /* of spin_polls, for each publisher: 0 = it is worth to spin for it */
    _Atomic uint64_t holds_heap;     /* withdrawals when this call first looked into the heap; 0 = it has not */
};

struct tti_p2p;

struct tti_engine {
    int rank;
    int size;
    struct tti_layout layout;
    struct tti_tuning tuning;
    unsigned char **segments;
    struct tti_heap *heap; /* NULL: none */
    unsigned char *doorbell;
    int futex_private;       /* FUTEX_PRIVATE_FLAG or 0 */
    bool direct;             /* ranks are threads: every rank can reach every tensor */
    _Atomic uint32_t remote; /* TTI_READS_*: whether all can read all others' private memory */
    tti_commit_function commit;
    tti_populate_function populate;
    void *commit_user;
    bool barriers;           /* sleepers run barriers on publishers' CPUs: see publish.c */
    bool publishes_unfenced; /* they do, and one mask has all of them */
    double ticks_per_ns;
    unsigned spin_polls;       /* polls with a pause before yielding      */
    unsigned background_polls; /* the same beside the application's threads */
    int64_t yield_ns;          /* yielding before sleeping                */
    int64_t sleep_ns;          /* bound of one sleep                      */
    double ranks_per_cpu;
    pthread_mutex_t sleep_lock; /* threads that wait for messages share one bit per peer */
    int message_sleepers;       /* how many do, under the lock */
    struct tti_lane *lanes;
    struct tti_p2p *p2p;
    _Atomic int32_t failed;      /* tutti_status; set after `failure` was written, release */
    _Atomic bool death_reported; /* that a peer has died: later calls hear REVOKED */
    bool death;                  /* that is the failure */
    pthread_mutex_t failure_lock;
    tutti_error failure;
    _Atomic uint64_t left[TTI_MAX_RANKS / 64]; /* ranks whose processes have ended by exit() */
    _Atomic uint64_t dead[TTI_MAX_RANKS / 64]; /* and those that have died */
    _Atomic uint32_t aborts;                   /* by threads of this rank */
    struct tti_agreement_state agreements[TTI_AGREEMENT_SERIES];
};

static inline struct tti_segment_header *tti_header(const struct tti_engine *e, int rank)
{
    return (struct tti_segment_header *)e->segments[rank];
}

/* Whether a rank has left in good order: it has closed the group, or its process has ended by exit(). */
static inline bool tti_has_left(const struct tti_engine *e, int rank)
{
    /* acquire, both: pair with tti_engine_leave and tti_fault_left; whatever the rank owed has been published before */
    return atomic_load_explicit(&tti_header(e, rank)->left, memory_order_acquire) != 0 ||
           (atomic_load_explicit(&e->left[rank / 64], memory_order_acquire) >> (rank % 64) & 1) != 0;
}

static inline struct tti_fault *tti_fault_of(const struct tti_engine *e, int rank)
{
    return (struct tti_fault *)(e->segments[rank] + e->layout.fault);
}

static inline struct tti_arrival *tti_arrival_in(unsigned char *const *controls, int rank, uint64_t call)
{
    return (struct tti_arrival *)(controls[rank] + (((size_t)call + (size_t)rank) % TTI_RING) * TTI_LINE);
}

static inline struct tti_arrival *tti_arrival_of(const struct tti_lane *lane, int rank, uint64_t call)
{
    return tti_arrival_in(lane->controls, rank, call);
}

static inline struct tti_progress *tti_progress_of(const struct tti_lane *lane, int rank)
{
    unsigned char *page = lane->controls[rank] + offsetof(struct tti_lane_control, progress);
    return (struct tti_progress *)(page + ((size_t)rank * TTI_LINE) % TTI_PAGE);
}

static inline _Atomic uint64_t *tti_position_of(const struct tti_lane *lane, int rank)
{
    return &tti_progress_of(lane, rank)->position;
}

static inline enum tti_algorithm tti_algorithm_of_steps(size_t steps)
{
    return steps > 1 ? TTI_ALGORITHM_PIPELINED : TTI_ALGORITHM_STAGED;
}

static inline uint64_t tti_position_at(const struct tti_lane *lane, uint64_t phase)
{
    return lane->call << TTI_PHASE_BITS | phase;
}

#endif
