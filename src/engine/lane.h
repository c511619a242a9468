/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's shared types: a rank's engine, its lanes and stages, and where words lie in the segments.
 *
 * A lane is one sequence of collective calls; one thread at a time runs calls on it. This header has types and the
 * arithmetic of addresses only. Every other file of the engine may include it, and it includes none of them but layout,
 * heap, tuning and spin.
 */
#ifndef TTI_ENGINE_LANE_H
#define TTI_ENGINE_LANE_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <tutti/backend.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/memory/heap.h"
#include "engine/memory/layout.h"
#include "engine/memory/residency.h"
#include "engine/tuning/tuning.h"
#include "engine/wait/spin.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

/* The readers of a span of the stage, and how far they must be before the span may be written again. */
struct tti_stamp {
    uint64_t end; /* position behind the span */
    uint64_t call;
    uint64_t phase; /* of that call, or TTI_PHASE_NEXT */
    int reader;     /* -1: all peers */
};
#define TTI_STAMPS 64u

/* The rings of a stage, in the order of their memory (memory/stage.c). The last two may have no bytes. */
enum tti_stage_ring { TTI_RING_FIRST, TTI_RING_FAR, TTI_RING_SMALL, TTI_STAGE_RINGS };

/* A rank's ring of bytes, from which its peers read. Positions count all bytes ever used, gaps included: position
 * modulo ring is the place. */
struct tti_stage {
    uint64_t base;      /* of the ring, in the lane's memory */
    uint64_t ring;      /* its bytes, a power of two */
    uint64_t committed; /* bytes from the beginning that have memory */
    uint64_t head;      /* position of the first span of the next call, before it is made to fit */
    uint64_t freed;     /* all readers have read everything before this position */
    uint64_t first;     /* of the current call: position of span 0 ... */
    uint64_t stride;    /* ... and bytes of each span */
    uint32_t stamps_first;
    uint32_t stamps_count;
    struct tti_stamp *stamps;       /* TTI_STAMPS of them */
    const unsigned char *requested; /* memory/prefetch.c: lines that the next call finds in its own caches */
    const unsigned char *requested_end;
    uint64_t ended; /* in ticks: when the call before did */
    bool paused;    /* the current call began long after that */
};

/* How a call's data get to the other ranks. */
enum tti_class {
    TTI_CLASS_LINE,    /* in the arrival lines                                          */
    TTI_CLASS_PACKETS, /* in the arrival lines, and in packets where a line is too short */
    TTI_CLASS_LARGE    /* through stages, or directly between tensors                   */
};

/* tutti_op.prepared: what follows from operation and group alone, so an operation that runs again keeps it. Words 0 and
 * 1 are the descriptor. */
enum {
    TTI_PREPARED_CLASS =
        2, /* class; whether the call announces its end; of an all_reduce in lines: 16 bits of bytes, 32 bits of what it
              adds to bytes_copied */
    TTI_PREPARED_FOLD = 3 /* address of the fold function of an all_reduce in lines; 0 for other calls */
};
#define TTI_PREPARED_CLASSES     UINT64_C(3)
#define TTI_PREPARED_ANNOUNCES   UINT64_C(4) /* the call ends by publishing TTI_PHASE_FINAL */
#define TTI_PREPARED_BYTES_FROM  16
#define TTI_PREPARED_COPIED_FROM 32

/* The algorithm of a large call: tti_engine_algorithm gives its name. */
enum tti_algorithm {
    TTI_ALGORITHM_UNDECIDED,
    TTI_ALGORITHM_ONE_SHOT,   /* every rank folds all bytes                                 */
    TTI_ALGORITHM_TWO_SHOT,   /* every rank folds one slice and copies the other slices out */
    TTI_ALGORITHM_STAGED,     /* through the stages, in one step                            */
    TTI_ALGORITHM_PIPELINED,  /* through the stages, in several steps                       */
    TTI_ALGORITHM_ZERO_COPY,  /* ranks read and write each other's tensors in place         */
    TTI_ALGORITHM_SINGLE_COPY /* zero copy, and the kernel copies from private tensors      */
};

/* A small call may run in two steps: tti_engine_start publishes its arrival, tti_engine_finish does the rest. */
enum tti_half {
    TTI_HALF_BOTH,
    TTI_HALF_ARRIVAL, /* the first wait returns BUSY         */
    TTI_HALF_REST     /* the arrival is published already */
};

struct tti_p2p;
struct tti_wait_upcalls;

#define TTI_AGREEMENT_SERIES 2

/* This rank's own state of one series of agreements: failure/agreement.c. */
struct tti_agreement_state {
    uint64_t round; /* the last one that this rank has taken part in */
    bool open;      /* this rank has not seen its decision           */
    bool excluded;  /* the other ranks have gone on without this one */
};

/* Where one rank's data for another one lie in a span. */
struct tti_span_slot {
    uint64_t start;
    uint64_t bytes;
};

struct tti_lane {
    /* what small calls use comes first */
    _Alignas(64) struct tti_engine *engine;
    int index;
    unsigned char **controls;         /* size entries: each rank's tti_lane_control of this lane       */
    const _Atomic uint64_t *sleepers; /* the ranks that sleep on words of this rank on this lane       */
    uint32_t digest;                  /* a sum over earlier calls that did not wait for all: mismatch.c */
    uint32_t alarm_seen;              /* the alarm word when this lane last checked for failures       */
    enum tti_class class;             /* of this call                     */
    enum tti_algorithm algorithm;     /* of this call, if it is large      */
    bool exposed;                     /* peers can reach the tensors of this rank that they need in this call */
    bool named;                       /* some rank has named a tensor that it exposes                  */
    bool streams;                     /* what this call writes next goes past the caches            */
    bool cold;                        /* because its output lies in no cache of this CPU             */
    bool announces;                   /* this call ends by publishing TTI_PHASE_FINAL                  */
    bool advances;                    /* this call adds to the digest when it ends                     */
    bool diverged;                    /* `reported_delta` or `mismatch_reported` is not all zero      */
    bool late_mismatch;               /* this call runs to its end and returns MISMATCH; *error has the sentence */
    bool has_mismatched;              /* `mismatched` has the ranks that run another call             */
    enum tti_half half;               /* the part of this call that runs now                          */
    int32_t background;               /* of the call for which tti_wait_begin has set spin_polls and yield_ns */
    unsigned spin_polls;              /* of the current call: polls before it yields                  */
    int64_t yield_ns;                 /* of the current call: yielding before it sleeps               */
    uint64_t call;                    /* number of the current call, from 1                           */
    uint64_t credit;                  /* every peer has arrived at this call                          */
    uint64_t bytes_copied;            /* bytes loaded and stored by copies and folds, so far          */
    size_t bytes;                     /* of a large call: tti_call_bytes                              */
    uint64_t input;                   /* names of the exposed tensors, with threads their addresses; 0 = private */
    uint64_t output;
    unsigned char *unpacked;  /* TTI_INLINE_MOST bytes for each rank; NULL if no call uses packets */
    void **targets;           /* size entries, for folds with several results            */
    const void **sources;     /* size entries, for folds                                 */
    double *scales;           /* size entries                                            */
    uint64_t *starts;         /* size entries: place of each rank's span 0 in this call  */
    unsigned char *populated; /* size entries: a bit for each ring that is mapped for reading */
    unsigned char **inputs;   /* size entries: where this rank sees every rank's exposed tensors; NULL = private */
    unsigned char **outputs;
    /* size entries each: see mismatch.c */
    uint32_t *reported_delta;    /* peer's digest minus own digest, as far as this rank has reported it         */
    bool *mismatch_reported;     /* the next difference that this rank sees in the peer's digest is reported, too */
    bool *mismatched;            /* the rank runs another call than this one                                    */
    bool *remote;                /* size entries: `inputs` and `outputs` are addresses of that rank's process */
    struct tti_span_slot *slots; /* all_to_all_v: size entries in the own spans, then size entries in the peers';
                                  * reduce_scatter: size entries, the same in all spans */
    /* the current call */
    uint64_t needed_call; /* while it waits for credit: the earlier call whose arrivals it needs; else 0 */
    const tutti_op *op;
    tutti_error *error;
    uint64_t descriptor[2];
    int64_t started_ns; /* 0 until the first clock read */
    int64_t deadline_ns;
    /* what only large calls and long waits use */
    struct tti_stage rings[TTI_STAGE_RINGS];
    struct tti_stage *stage;        /* the one in use */
    uint32_t publications;          /* of large calls, or those in the small ring */
    uint32_t probes;                /* calls in which the distance may be measured */
    double publish_ticks;           /* time to change a line that another rank has read: a running average */
    struct tti_residency residency; /* of its outputs */
    struct tti_spin *spins;         /* for each publisher */
    _Atomic uint64_t holds_heap;    /* heap withdrawals at this call's first lookup; 0 = it looked nothing up */
};

struct tti_engine {
    int rank;
    int size;
    struct tti_layout layout;
    struct tti_tuning tuning;
    unsigned char **segments;
    struct tti_heap *heap; /* NULL: none */
    unsigned char *doorbell;
    int futex_private;       /* FUTEX_PRIVATE_FLAG if ranks are threads; 0 if they are processes */
    bool direct;             /* ranks are threads: every rank can reach every tensor */
    _Atomic uint32_t remote; /* TTI_READS_*: whether every rank can read every other rank's private memory */
    tti_commit_function commit;
    tti_populate_function populate;
    void *commit_user;
    bool barriers;           /* sleepers run barriers on publishers' CPUs: see publish.c */
    bool publishes_unfenced; /* they do, and one mask has a bit for every rank           */
    double ticks_per_ns;
    unsigned spin_polls;       /* polls with a pause before yielding              */
    unsigned background_polls; /* the same beside the application's threads      */
    int64_t yield_ns;          /* yielding before sleeping                       */
    int64_t sleep_ns;          /* bound of one sleep                             */
    double ranks_per_cpu;
    pthread_mutex_t sleep_lock; /* threads that wait for messages share one bit per peer   */
    int message_sleepers;       /* threads that wait for messages now, under the lock      */
    struct tti_lane *lanes;
    unsigned char *arrays;    /* of all lanes */
    struct tti_stamp *stamps; /* the same */
    unsigned char *unpacked;
    struct tti_p2p *p2p;
    _Atomic int32_t failed;      /* tutti_status; release, after `failure` was written     */
    _Atomic bool death_reported; /* a call has returned the death: later calls return REVOKED */
    bool death;                  /* `failure` is a peer's death */
    pthread_mutex_t failure_lock;
    tutti_error failure;
    _Atomic uint64_t left[TTI_MAX_RANKS / 64]; /* ranks whose processes have ended by exit() */
    _Atomic uint64_t dead[TTI_MAX_RANKS / 64]; /* ranks whose processes have died            */
    _Atomic uint32_t aborts;                   /* by threads of this rank                    */
    struct tti_agreement_state agreements[TTI_AGREEMENT_SERIES];
    const struct tti_wait_upcalls *upcalls; /* what a long wait asks of failure/: see wait/wait.h */
    unsigned char **homes; /* of each rank: the segment whose header says what its process is and whether it lives */
    double pause_ns;       /* of one tti_backoff */
    void *watched;         /* of the liveness monitor; NULL: it does not watch this group */
    bool covers;           /* its watch serves other groups, too: under the lock of the liveness monitor */
};

static inline struct tti_segment_header *tti_header(const struct tti_engine *e, int rank)
{
    return (struct tti_segment_header *)e->segments[rank];
}

/* The header with a rank's process. It differs from tti_header for groups that share the segments of another group. */
static inline struct tti_segment_header *tti_home(const struct tti_engine *e, int rank)
{
    return (struct tti_segment_header *)e->homes[rank];
}

/* Whether a rank has left in good order, or is about to: then the end of its process is no death. */
static inline bool tti_leaves(const struct tti_engine *e, int rank)
{
    /* acquire, both: everything that the rank publishes comes before */
    return atomic_load_explicit(&tti_header(e, rank)->left, memory_order_acquire) != 0 ||
           atomic_load_explicit(&tti_home(e, rank)->leaving, memory_order_acquire) != 0;
}

/* Whether a rank has left in good order: it has destroyed its group, or its process has ended by exit(). */
static inline bool tti_has_left(const struct tti_engine *e, int rank)
{
    /* acquire, both: pair with tti_fault_leave and tti_fault_left; everything the rank published comes before */
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

/* Whether there is a small ring that holds TTI_STAGE_SPANS spans of so many bytes. */
static inline bool tti_stage_small_holds(const struct tti_lane *lane, size_t stride)
{
    return stride * TTI_STAGE_SPANS <= lane->engine->layout.stage_small;
}

/* Whether there is a ring for far readers / whether this call's spans lie in it. */
static inline bool tti_stage_has_far(const struct tti_lane *lane)
{
    return lane->engine->layout.stage_far != 0;
}

static inline bool tti_stage_is_far(const struct tti_lane *lane)
{
    return lane->stage == &lane->rings[TTI_RING_FAR];
}

/* Whether a rank runs another call than this one, so that it never publishes what this call expects. */
static inline bool tti_is_mismatched(const struct tti_lane *lane, int rank)
{
    return __builtin_expect(lane->has_mismatched, 0) && lane->mismatched[rank];
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
