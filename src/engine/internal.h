/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the engine share: the private state of a rank, and access to the segments. */
#ifndef TTI_ENGINE_INTERNAL_H
#define TTI_ENGINE_INTERNAL_H

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/heap.h"
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
    uint64_t base;   /* of the ring, in the lane's memory */
    uint64_t ring;   /* its bytes, a power of two */
    bool committed;  /* may be written */
    uint64_t head;   /* position of the first span of the next call, before it is made to fit */
    uint64_t freed;  /* everything before has been read by all */
    uint64_t first;  /* of the current call: position of span 0 ... */
    uint64_t stride; /* ... and bytes of each span */
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

/* How a large call ran: what tti_engine_algorithm says of it. */
enum tti_way {
    TTI_WAY_UNDECIDED,
    TTI_WAY_ONE_SHOT,  /* everybody folds everything                         */
    TTI_WAY_TWO_SHOT,  /* everybody folds a slice and copies the others' out */
    TTI_WAY_STAGED,    /* through the stages, in one step                    */
    TTI_WAY_PIPELINED, /* the same or in two shots, in several steps         */
    TTI_WAY_ZERO_COPY  /* where the tensors lie                              */
};

struct tti_lane {
    struct tti_engine *engine;
    int index;
    unsigned char **controls;         /* size entries: each rank's tti_lane_control of this lane */
    const _Atomic uint64_t *sleepers; /* who sleeps on this rank's words of this lane */
    uint32_t digest;                  /* rolling, over the descriptors of all calls that have arrived ... */
    uint32_t digest_before;           /* ... and of those before the last of them */
    uint32_t alarm_seen;              /* value of the alarm word when it was last looked into */
    enum tti_class class;             /* of this call */
    enum tti_way way;                 /* of this call, if it is large */
    bool exposed;                     /* what others need of this rank's tensors they can reach where it lies */
    bool named;                       /* some rank has named a tensor that it exposes */
    bool streams;                     /* the output of this call goes past the caches */
    bool announces;                   /* this call has to end by announcing TTI_PHASE_FINAL */
    bool arriving;                    /* only its arrival is wanted now: the first wait returns BUSY */
    bool arrived;                     /* that has been done: its arrival is there already */
    int32_t background;  /* of the call for which spin_polls and yield_ns have been set: see tti_wait_begin */
    unsigned spin_polls; /* how the current call waits */
    unsigned slow_waits; /* so far: some of them are trials, see wait.c */
    int64_t yield_ns;
    uint64_t call;          /* number of the current call, from 1 */
    uint64_t credit;        /* every peer has arrived at this call */
    uint64_t moved;         /* bytes loaded and stored by copies and folds, so far */
    struct tti_stage stage; /* the ring in use ... */
    struct tti_stage spare; /* ... and the other one */
    uint32_t publications;  /* of large calls */
    double publish_ticks;   /* what it takes to change a line that another rank has read: a running average */
    uint64_t input;         /* names of the exposed tensors, or with threads their addresses; 0 = private */
    uint64_t output;
    unsigned char *unpacked;  /* TTI_INLINE_MOST bytes for each rank; NULL if no call uses packets */
    void **targets;           /* size entries, for folds with several results */
    const void **sources;     /* size entries, for folds */
    double *scales;           /* size entries */
    uint64_t *starts;         /* size entries: place of each rank's span 0 in this call */
    unsigned char *populated; /* size entries: which rings are mapped for reading, a bit for each */
    unsigned char **inputs;   /* size entries: every rank's exposed tensors as this rank sees them, or NULL */
    unsigned char **outputs;
    /* the current call */
    uint64_t awaited_call; /* the arrivals it waits for: usually its own number; an earlier one while it needs credit */
    const tutti_op *op;
    tutti_error *error;
    uint64_t descriptor[2];
    int64_t started_ns; /* 0 until the first clock read */
    int64_t deadline_ns;
    int64_t timeout_ms;
    uint8_t halvings[TTI_MAX_RANKS]; /* of spin_polls, for each publisher: 0 = it is worth to spin for it */
};

struct tti_p2p;

struct tti_engine {
    int rank;
    int size;
    struct tti_layout layout;
    struct tti_tuning tuning;
    unsigned char **segments;
    struct tti_heap *heap; /* NULL: none */
    unsigned char *bell;
    int futex_private; /* FUTEX_PRIVATE_FLAG or 0 */
    bool direct;       /* ranks are threads: every rank can reach every tensor */
    tti_commit_function commit;
    tti_populate_function populate;
    void *commit_user;
    bool barriers; /* sleepers run barriers on publishers' CPUs: see publish.c */
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
    _Atomic int32_t failed; /* tutti_status; set after `failure` was written, release */
    pthread_mutex_t failure_lock;
    tutti_error failure;
};

static inline struct tti_segment_header *tti_header(const struct tti_engine *e, int rank)
{
    return (struct tti_segment_header *)e->segments[rank];
}

static inline struct tti_fault *tti_fault_of(const struct tti_engine *e, int rank)
{
    return (struct tti_fault *)(e->segments[rank] + e->layout.fault);
}

static inline struct tti_arrival *tti_arrival_of(const struct tti_lane *lane, int rank, uint64_t call)
{
    return (struct tti_arrival *)(lane->controls[rank] + (((size_t)call + (size_t)rank) % TTI_RING) * TTI_LINE);
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

static inline enum tti_way tti_way_of_steps(size_t steps)
{
    return steps > 1 ? TTI_WAY_PIPELINED : TTI_WAY_STAGED;
}

static inline uint64_t tti_at(const struct tti_lane *lane, uint64_t phase)
{
    return lane->call << TTI_PHASE_BITS | phase;
}

/* ---- publish.c, wait.c: publishing and waiting ----------------------------------------------------------------- */

/* One thing to wait for: a word that `publisher` will change. */
struct tti_awaited {
    _Atomic uint64_t *word;
    int publisher;
};

static inline _Atomic uint32_t *tti_alarm(const struct tti_engine *e)
{
    return (_Atomic uint32_t *)e->bell;
}

/* Who sleeps on words of this publisher: a bit for each rank. */
_Atomic uint64_t *tti_sleepers(const struct tti_engine *e, int publisher, int channel);

/* Whether this process can run barriers on other CPUs, and lets others run them here / whether all ranks can / runs one. */
bool tti_barrier_register(void);
void tti_barrier_find(struct tti_engine *e);
void tti_barrier(const struct tti_engine *e);

/* Looks at a mask of sleepers after `word` has been stored, and wakes them. */
void tti_wake_sleepers(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word);

/* Stores a value that others may wait for, and wakes those who sleep on it: publish.c says why this suffices. */
static inline void tti_publish_for(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word,
                                   uint64_t value)
{
    if (__builtin_expect(e->barriers, 1)) {
        /* release: pairs with the waiters' acquire loads */
        atomic_store_explicit(word, value, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst); /* the compiler keeps the order; the CPU is the sleeper's business */
    } else {
        /* seq_cst, and thereby release: pairs with the waiters' acquire loads, and with the fetch_or in tti_sleep */
        atomic_exchange_explicit(word, value, memory_order_seq_cst);
    }
    /* seq_cst: pairs with the fetch_or in tti_sleep, through the exchange or the sleeper's barrier */
    if (__builtin_expect(e->size > 64 || atomic_load_explicit(sleepers, memory_order_seq_cst) != 0, 0)) {
        tti_wake_sleepers(e, sleepers, word);
    }
}
void tti_publish(const struct tti_engine *e, int channel, _Atomic uint64_t *word, uint64_t value);

/* The same in a collective; in large calls it also finds out how far away the readers are (lane->publish_ticks). */
void tti_lane_publish_large(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value);

static inline void tti_lane_publish(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value)
{
    if (lane->class == TTI_CLASS_LARGE) {
        tti_lane_publish_large(lane, word, value);
    } else {
        tti_publish_for(lane->engine, lane->sleepers, word, value);
    }
}

/* Waits in a collective until *word >= target: spin, yield, sleep; deadline, alarm and departures are watched. */
tutti_status tti_lane_wait_slow(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher);

static inline tutti_status tti_lane_wait(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher)
{
    /* acquire: pairs with the release in tti_publish; what the publisher wrote before is visible after */
    if (__builtin_expect(atomic_load_explicit(word, memory_order_acquire) >= target, 1)) {
        return TUTTI_OK;
    }
    return tti_lane_wait_slow(lane, word, target, publisher);
}

/* Sleeps until one of `count` words may have changed from `seen`, the alarm rings, `own` (may be NULL) changes from
 * own_seen, or a few milliseconds or `until_ns` pass. May return early. */
void tti_sleep(struct tti_engine *e, int channel, const struct tti_awaited *awaited, const uint64_t *seen, int count,
               uint32_t alarm_seen, _Atomic uint32_t *own, uint32_t own_seen, int64_t until_ns);

void tti_ring_alarm(const struct tti_engine *e);
void tti_wake_own(const struct tti_engine *e, _Atomic uint32_t *word);
void tti_pause(void);

/* Polls with a pause that are worth while for a word of this publisher. */
static inline unsigned tti_spin_polls(const struct tti_lane *lane, int publisher)
{
    return lane->spin_polls >> lane->halvings[publisher];
}

/* ---- policy.c: how long to spin and to yield ------------------------------------------------------------------------ */

/* Decides for the group, from what the segments' headers say and, where not negative, from the settings. */
void tti_wait_policy(struct tti_engine *e, int64_t spin_ns, int64_t yield_ns);

/* How the lane's call is going to wait: a call beside the application's own threads must not keep a CPU from them. */
void tti_wait_begin(struct tti_lane *lane);

/* ---- fault.c: failing, and learning that others have -------------------------------------------------------------- */

/* The group has failed, or a peer that is needed has gone. publisher -1: nobody in particular. OK if all is well. */
tutti_status tti_fault_check(struct tti_engine *e, struct tti_lane *lane, int publisher, tutti_error *error);

/* Fails the group from this rank: writes the record, rings the alarm, remembers the error, returns `cause`. */
tutti_status tti_fault_raise(struct tti_engine *e, struct tti_lane *lane, const uint64_t *suspects, tutti_error *error);

/* Fails the group for a reason that lies outside the engine; adds who has not arrived at the lane's newest call. */
void tti_fault_abort(struct tti_engine *e, int32_t lane, const tutti_error *cause);

/* The deadline of the lane's call has passed: names every laggard and fails the group. */
tutti_status tti_fault_timeout(struct tti_lane *lane, int publisher);

/* ---- arrive.c: the arrival ring --------------------------------------------------------------------------------------- */

/* What a call that is not inline tells beside its descriptor: all of it fits the cache line of the sequence. */
struct tti_attributes {
    uint32_t mark;  /* tutti_status: this rank cannot take part */
    uint32_t start; /* place of its first span in its stage, in units of 64 bytes */
    double scale;
    uint64_t input; /* of the tensors that it exposes: see direct.c */
    uint64_t output;
};

/* Puts the own arrival into the ring, with `bytes` of payload. */
tutti_status tti_arrive(struct tti_lane *lane, const void *payload, size_t bytes);
tutti_status tti_arrive_staged(struct tti_lane *lane, uint32_t mark);

/* Whether the current call, or the next one, can put its arrival into the ring without waiting. */
bool tti_has_credit(struct tti_lane *lane, uint64_t call);

/* Whether the current call will not have to wait for an arrival. */
bool tti_arrivals_complete(const struct tti_lane *lane, const tutti_op *op);

/* Whether a rank that the current call waits for has left without arriving. */
bool tti_laggard_left(const struct tti_lane *lane, const tutti_op *op);

/* For rooted calls that may be cancelled: a round in which everybody hears whether somebody does not want to. */
tutti_status tti_agree(struct tti_lane *lane, const tutti_op *op);

/* Waits for the arrival of one peer / of all, and compares the calls. MISMATCH in tti_await_all leaves the group usable
 * if every rank's call waits for all. */
tutti_status tti_await_one(struct tti_lane *lane, int peer);
tutti_status tti_await_all(struct tti_lane *lane);

/* tti_await_all for the root of a rooted call. When it fails while others may be waiting for this root in the same call
 * (`others_wait`), the whole group is failed, so that nobody waits for ever. */
tutti_status tti_await_all_as_root(struct tti_lane *lane, bool others_wait);

/* After await: the peer's attributes (checked; fills lane->starts and lane->scales). */
tutti_status tti_attributes_one(struct tti_lane *lane, int peer);
tutti_status tti_attributes_all(struct tti_lane *lane);
tutti_status tti_attributes_as_root(struct tti_lane *lane, bool others_wait);

/* ---- stage.c: what peers shall read -------------------------------------------------------------------------------------- */

/* Divides the lane's memory into its two rings, once. */
void tti_stage_prepare(struct tti_lane *lane);

/* Says how large the spans of this call are; before it arrives. Makes the stage usable: on failure the call goes on with
 * this status as its mark. */
tutti_status tti_stage_begin(struct tti_lane *lane, size_t stride);

/* Takes the place of a peer's first span from its arrival: lane->starts. */
void tti_stage_start(struct tti_lane *lane, int peer, uint64_t place);

/* The place of this rank's own first span. */
static inline uint64_t tti_stage_place(const struct tti_lane *lane)
{
    return lane->stage.base + (lane->stage.first & (lane->stage.ring - 1));
}

/* tti_stage_begin for a rank that only reads. */
void tti_stage_shape(struct tti_lane *lane, size_t stride);

/* Span number `index` of this call, free for writing. Spans are taken in order. */
tutti_status tti_stage_acquire(struct tti_lane *lane, size_t index, unsigned char **span);

/* A span of this call that has been acquired. */
unsigned char *tti_stage_own(const struct tti_lane *lane, size_t index);

/* The span acquired last will have been read by `reader` (-1 = every peer) when its position reaches `phase` of this call,
 * or TTI_PHASE_NEXT: when it has arrived at the next call. Said again, it replaces what was said before. */
void tti_stage_stamp(struct tti_lane *lane, uint64_t phase, int reader);

/* The same span of a peer, to read; after tti_attributes. */
const unsigned char *tti_stage_peer(const struct tti_lane *lane, int peer, size_t index);

/* Waits until the peer has published `phase`: its span `index` is there. Its arrival has said so of span 0, unless it exposes
 * its tensors: then it did not know yet whether it has to stage at all. */
tutti_status tti_await_span(struct tti_lane *lane, int peer, size_t index, uint64_t phase);

/* Spans that a call surely can acquire without waiting for others in the same call. */
size_t tti_stage_room(const struct tti_lane *lane);

/* Tells the others how far this rank has come in the call / waits until peers have come that far. */
void tti_advance(struct tti_lane *lane, uint64_t phase);
tutti_status tti_wait_phase(struct tti_lane *lane, int peer, uint64_t phase);
tutti_status tti_wait_phase_all(struct tti_lane *lane, uint64_t phase);

/* ---- exchange.c: all stage, all read, step by step -------------------------------------------------------------------------- */

struct tti_exchange {
    const tutti_op *op;
    size_t stride; /* bytes of a span: what a rank stages in a step */
    size_t steps;
    size_t piece; /* for the callbacks: bytes of whatever they cut */
    /* Puts what belongs to step k into the own span. */
    void (*pack)(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span);
    /* Takes what belongs to step k out of one peer's span; or, if NULL ... */
    void (*take)(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer);
    /* ... out of all, together. */
    void (*take_all)(struct tti_lane *lane, const struct tti_exchange *x, size_t k);
    /* When all have arrived, agree on the call, and have to stage: may write outputs, and change `steps`, alike on all
     * ranks. NULL: nothing. */
    tutti_status (*agreed)(struct tti_lane *lane, struct tti_exchange *x);
};

tutti_status tti_exchange_run(struct tti_lane *lane, struct tti_exchange *x);

/* ---- rooted.c: one rank's data to or from all others, in a stream of spans -------------------------------------------------- */

/* A rooted call in spans of `stride` bytes, each holding `piece` bytes of the call's data (for scatter: of every part). */
struct tti_stream {
    const tutti_op *op;
    size_t bytes; /* of the data */
    size_t piece;
    size_t stride;
    size_t steps;
    size_t report; /* a reader tells how far it has come at least once in so many spans */
    void (*pack)(struct tti_lane *lane, const struct tti_stream *s, size_t k, unsigned char *span);
    void (*take)(struct tti_lane *lane, const struct tti_stream *s, size_t k, int peer);
    void (*take_all)(struct tti_lane *lane, const struct tti_stream *s, size_t k); /* instead of `take` */
    /* Takes the whole of a peer's exposed tensor at once; NULL if tti_run_direct does that. */
    tutti_status (*pull)(struct tti_lane *lane, const struct tti_stream *s, int peer);
};

/* Sets piece, stride, steps and report for `bytes` bytes, and `slots` slots in each span. */
void tti_stream_cut(const struct tti_lane *lane, struct tti_stream *s, size_t bytes, size_t slots);

/* The part of a rank that writes, and whose data `reader` (-1: all others) take; arrives by itself. It returns as soon as
 * its last span is staged, and waits for readers only to use a span again. */
tutti_status tti_stream_write(struct tti_lane *lane, const struct tti_stream *s, int reader);
/* The part of the leaf of a root that writes / of the root of leaves that write. */
tutti_status tti_stream_read_root(struct tti_lane *lane, const struct tti_stream *s);
tutti_status tti_stream_read_leaves(struct tti_lane *lane, const struct tti_stream *s);

/* ---- parts.c: joined tensors ---------------------------------------------------------------------------------------------- */

size_t tti_part_bytes(const tutti_parts *parts, int rank); /* of the whole part */
size_t tti_part_bytes_max(const tutti_parts *parts, int size);
/* Copies bytes [from, from + n) of a part, counted in its compact form, out of / into the joined tensor. */
void tti_part_read(struct tti_lane *lane, void *dst, const void *joined, const tutti_parts *parts, int rank,
                   size_t from, size_t n);
void tti_part_write(struct tti_lane *lane, void *joined, const tutti_parts *parts, int rank, size_t from,
                    const void *src, size_t n);
/* The piece of a part that begins at byte `from` of its compact form: at most n bytes that lie together. */
unsigned char *tti_part_piece(const void *joined, const tutti_parts *parts, int rank, size_t from, size_t *n);
/* Where the part starts if it is compact inside the joined tensor (outer == 1), else NULL. */
const unsigned char *tti_part_direct(const void *joined, const tutti_parts *parts, int rank);

/* Bytes of a part that fall into its k-th piece of `piece` bytes: 0 behind the end. */
static inline size_t tti_cut(size_t bytes, size_t piece, size_t k)
{
    size_t from = k * piece;
    return from >= bytes ? 0 : (bytes - from < piece ? bytes - from : piece);
}

/* memcpy, of which GCC does not know how long it may be: else it puts rep movsq in its place, and that takes as long to
 * begin as the library takes for a kilobyte. */
static inline void tti_memcpy(void *dst, const void *src, size_t n)
{
    __asm__("" : "+r"(n));
    memcpy(dst, src, n);
}

static inline void tti_copy(void *dst, const void *src, size_t n)
{
    if (n != 0 && dst != src) {
        tti_memcpy(dst, src, n);
    }
}

/* Copies and folds, counted. */
static inline void tti_move(struct tti_lane *lane, void *dst, const void *src, size_t n)
{
    if (n == 0 || dst == src) {
        return;
    }
    if (n < TTI_PAGE / 2) {
        tti_memcpy(dst, src, n);
    } else {
        tti_copy_cached(dst, src, n);
    }
    lane->moved += 2 * n;
}

/* The same into a tensor of the caller, which goes past the caches if it is larger than they are. */
static inline void tti_move_out(struct tti_lane *lane, void *dst, const void *src, size_t n)
{
    if (lane->streams && n >= TTI_PAGE && dst != src) {
        tti_copy_stream(dst, src, n);
        lane->moved += 2 * n;
    } else {
        tti_move(lane, dst, src, n);
    }
}

/* What a step stages of each rank's part, in a span that holds something for everybody: at most `most`, whole cache
 * lines. */
static inline size_t tti_slot_bytes(const struct tti_lane *lane, size_t most)
{
    size_t share = lane->engine->tuning.window / (size_t)lane->engine->size / 64 * 64;
    most = (most + 63) / 64 * 64;
    return most < share ? most : share;
}

static inline struct tti_fold tti_fold_of(const struct tti_lane *lane)
{
    const tutti_op *op = lane->op;
    return (struct tti_fold){
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
}

/* Folds lane->sources, `bytes` of each, by the call's operation. */
static inline void tti_reduce(struct tti_lane *lane, void *dst, size_t bytes)
{
    const struct tti_fold fold = tti_fold_of(lane);
    tti_fold(dst, lane->sources, (size_t)lane->engine->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->moved += ((size_t)lane->engine->size + 1) * bytes;
}

/* The same into lane->targets. */
static inline void tti_reduce_push(struct tti_lane *lane, size_t outputs, size_t bytes)
{
    const struct tti_fold fold = tti_fold_of(lane);
    const size_t size = (size_t)lane->engine->size;
    tti_fold_push(lane->targets, outputs, lane->sources, size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->moved += (size + outputs) * bytes;
}

/* The same into a tensor of the caller that is none of the sources. */
static inline void tti_reduce_out(struct tti_lane *lane, void *dst, size_t bytes)
{
    if (!lane->streams || bytes < TTI_PAGE) {
        tti_reduce(lane, dst, bytes);
        return;
    }
    const struct tti_fold fold = tti_fold_of(lane);
    tti_fold_stream(dst, lane->sources, (size_t)lane->engine->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->moved += ((size_t)lane->engine->size + 1) * bytes;
}

/* ---- inline.c, packets.c: small calls, whose data travel with the arrival --------------------------------------------------- */

/* The class of a call: a function of the call and the group's size only. One that is not large does nothing before it has
 * arrived that could not be done again. begin_call keeps the answer in lane->class. */
enum tti_class tti_classify(const struct tti_lane *lane, const tutti_op *op);
/* What classes depend on: the bytes of the larger of a rank's two tensors, of the largest rank. */
size_t tti_call_bytes(const struct tti_lane *lane, const tutti_op *op);
/* Bytes that a rank sends with its arrival. */
size_t tti_inline_bytes(const struct tti_lane *lane, const tutti_op *op, int rank);
/* Those of them that this rank has to read. */
struct tti_range {
    size_t from;
    size_t end;
};
struct tti_range tti_inline_range(const struct tti_lane *lane, const tutti_op *op, int rank);
/* Those of its own that only this rank needs. */
struct tti_range tti_inline_unread(const struct tti_lane *lane, const tutti_op *op);

/* A peer's data out of its packets, in memory of this rank. */
static inline unsigned char *tti_unpacked(const struct tti_lane *lane, int rank)
{
    return lane->unpacked + (size_t)rank * TTI_INLINE_MOST;
}

/* After await: what a rank has sent. */
static inline const unsigned char *tti_payload(const struct tti_lane *lane, int rank)
{
    return lane->class == TTI_CLASS_LINE || tti_inline_bytes(lane, lane->op, rank) <= TTI_PAYLOAD
               ? tti_arrival_of(lane, rank, lane->call)->payload
               : tti_unpacked(lane, rank);
}

/* The arrival with its data. */
tutti_status tti_inline_arrive_scaled(struct tti_lane *lane, const void *data, size_t bytes);

static inline tutti_status tti_inline_arrive(struct tti_lane *lane, const void *data, size_t bytes)
{
    return lane->op->redop == TUTTI_PREMUL_SUM ? tti_inline_arrive_scaled(lane, data, bytes)
                                               : tti_arrive(lane, data, bytes);
}
/* Folds `count` elements from byte `from` of every rank's payload into dst. */
void tti_inline_fold(struct tti_lane *lane, void *dst, size_t from, size_t count);

/* Before the arrival is stored. */
void tti_packets_write(struct tti_lane *lane, const void *data, size_t bytes);
/* Waits for a peer's arrival and packets, and unpacks them. */
tutti_status tti_packets_await(struct tti_lane *lane, int peer);

/* ---- one file per collective ------------------------------------------------------------------------------------------------ */

tutti_status tti_run_solo(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_barrier(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_reduce(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_reduce(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_broadcast(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_gather(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_gather(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_scatter(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_reduce_scatter(struct tti_lane *lane, const tutti_op *op);
tutti_status tti_run_all_to_all(struct tti_lane *lane, const tutti_op *op);

/* ---- direct.c: the zero-copy class ---------------------------------------------------------------------------------------- */

/* Whether this call may go without staging: a function of call, bytes and group only, so that all ranks decide alike. */
bool tti_is_direct(const struct tti_lane *lane, const tutti_op *op);

/* Before the arrival: finds out whether what others need of this rank's tensors can be reached (lane->exposed), and how
 * they are told (lane->input, lane->output). */
void tti_expose(struct tti_lane *lane, const tutti_op *op);

/* After it: what a peer told (fills lane->inputs and lane->outputs); whether that suffices, from one / from all. */
tutti_status tti_locate(struct tti_lane *lane, int peer, uint64_t input, uint64_t output);
bool tti_exposes_all_needed(const struct tti_lane *lane, int rank);
static inline bool tti_exposes(const struct tti_lane *lane, int rank)
{
    return lane->named && tti_exposes_all_needed(lane, rank);
}
bool tti_all_expose(const struct tti_lane *lane);

/* When all expose: this rank's share of the work, and the end that all wait for. Not for broadcast, gather and scatter. */
tutti_status tti_run_direct(struct tti_lane *lane, const tutti_op *op);

/* Copies a part between two joined or compact places, of which others' may be among; NULL parts mean compact. */
tutti_status tti_pull(struct tti_lane *lane, void *dst, const tutti_parts *dst_parts, int dst_rank, const void *src,
                      const tutti_parts *src_parts, int src_rank, size_t bytes);

/* ---- intent.c: touching another rank's tensor ------------------------------------------------------------------------------ */

#define TTI_INTENT_BYTES 65536u /* at most so much is touched between tti_intend and tti_intent_done */

/* Around each chunk. Fails if the group has failed. */
tutti_status tti_intend(struct tti_lane *lane);
void tti_intent_done(struct tti_lane *lane);

/* Before a call returns an error, after the alarm has been rung: from now on nobody touches this rank's tensors. */
void tti_await_intents(struct tti_lane *lane);

/* ---- descriptor.c ----------------------------------------------------------------------------------------------------------- */

void tti_descriptor_make(const tutti_op *op, int size, uint64_t descriptor[2]);
void tti_descriptor_text(const uint64_t descriptor[2], char *text, size_t capacity);
tutti_operation tti_descriptor_kind(const uint64_t descriptor[2]);
bool tti_kind_waits_for_all(tutti_operation kind);
/* Turns a descriptor into that of a rank that cannot take part in the call: it equals nobody's who can. */
void tti_descriptor_fail(uint64_t descriptor[2]);
/* ... of a rank that has cancelled the call. */
void tti_descriptor_cancel(uint64_t descriptor[2]);
/* Cancelled or failed: one bit says so. */
static inline bool tti_descriptor_marked(const uint64_t descriptor[2])
{
    return (descriptor[0] & 16) != 0;
}
/* Takes the mark of a cancelled call off; true if it was there. */
bool tti_descriptor_uncancel(uint64_t descriptor[2]);
/* Turns the descriptor of a rooted call into that of the round before it, see tti_agree. */
void tti_descriptor_agree(uint64_t descriptor[2]);

/* ---- p2p.c -------------------------------------------------------------------------------------------------------------------- */

tutti_status tti_p2p_create(struct tti_engine *e, tutti_error *error);
void tti_p2p_destroy(struct tti_engine *e);

#endif
