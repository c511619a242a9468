/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of the memory that ranks share. Every rank owns one segment: only it writes there, and its peers read. All
 * ranks write the doorbell. It holds hints, the decision word (agreement.c), and the decision on a split
 * (backends/shm/split_ring.c), so a corrupted one never changes a result of a collective.
 *
 *   segment   header page | fault page | lane controls | pair controls | lane 0 stage, ... | pair 0 rings, ...
 *   lane      control: arrival ring (32 lines of 128 bytes); a progress line on a page of its own; packets a slot
 *             stage: up to three rings of bytes; each call takes what it needs from one of them (stage.c)
 *   pair      control: one line with what the owner publishes to one peer about messages
 *             rings: slots, each with a small message or the place of a chunk; a ring of bytes for chunks, of
 *             which most messages use the first ones only (ring_window)
 *   fault     struct tti_fault | votes and proposals (agreement.h)
 *   doorbell  alarm, decision word (agreement.h), the decision on a split and the number of sleepers in one line |
 *             for each (publisher, channel) one line: a bit for each rank that sleeps on that publisher
 *
 * Lines of a ring start at rank * 128 mod 4096: segments start on page boundaries, and reading the same line of many
 * ranks must not use one cache set. Everything before the stages is committed when the segment is made. A lane's stage
 * and a pair's rings are sparse until their first use.
 */
#ifndef TTI_ENGINE_MEMORY_LAYOUT_H
#define TTI_ENGINE_MEMORY_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/backend.h>

#include "base/host/cpu.h"
#include "base/process/proc.h"

#define TTI_MAX_RANKS    1024
#define TTI_LINE         128u
#define TTI_PAGE         4096u
#define TTI_RING         32u /* arrival lines a lane; a power of two */
#define TTI_PAYLOAD      100u
#define TTI_SLOTS        128u /* records in flight from one rank to another; a power of two */
#define TTI_SLOT_BODY    224u
#define TTI_OFFERS       8u          /* open ones from one rank to another: see p2p/large/zero_copy.c */
#define TTI_LAYOUT_MAGIC 0x69747475u /* "utti" */
#define TTI_LAYOUT_ABI   23u
#define TTI_STAGE_SPANS  5u /* a stage holds at least so many of the largest spans that a call takes: see stage.c */

/* One call of one rank. `sequence` is stored last: then the rest is there. */
struct tti_arrival {
    _Atomic uint64_t sequence;
    uint64_t descriptor[2];
    uint32_t digest;
    unsigned char payload[TTI_PAYLOAD];
};
static_assert(sizeof(struct tti_arrival) == TTI_LINE, "an arrival is two cache lines of 64 bytes");
static_assert(offsetof(struct tti_arrival, payload) == 28, "36 payload bytes share the line of the sequence");

/* The position of a rank: call << TTI_PHASE_BITS | phase, which only grows. And its intent: whether it touches another
 * rank's tensor now. The intent has a cache line of its own, because peers spin on the position. */
struct tti_progress {
    _Atomic uint64_t position;
    unsigned char pad[56];
    _Atomic uint64_t intent; /* 0 or 1: see intent.c */
    unsigned char pad2[56];
};
static_assert(sizeof(struct tti_progress) == TTI_LINE, "two cache lines");
#define TTI_PHASE_BITS  24
#define TTI_PHASE_FINAL ((1u << TTI_PHASE_BITS) - 1)
#define TTI_PHASE_NEXT  (1u << TTI_PHASE_BITS) /* never published: see stage.c */
/* See rooted_exposed.c. The root of a gather: the leaves may copy to its output their parts / all but what it copies
 * itself. And a rank that has copied its share to another one's output. */
#define TTI_PHASE_PUSH   (TTI_PHASE_FINAL - 3)
#define TTI_PHASE_SHARE  (TTI_PHASE_FINAL - 2)
#define TTI_PHASE_PUSHED (TTI_PHASE_FINAL - 1)
/* What a position can count: phases of a call, and calls of a lane that publish positions. */
#define TTI_PHASES_MOST (TTI_PHASE_PUSH - 4)
#define TTI_CALLS_MOST  ((UINT64_C(1) << (64 - TTI_PHASE_BITS)) - 2)

/* Data of a small call that do not fit its arrival line. Each packet has its own flag. */
struct tti_packet {
    unsigned char data[56];
    _Atomic uint64_t sequence; /* the call's number, stored last */
};
static_assert(sizeof(struct tti_packet) == 64, "one cache line");
#define TTI_PACKETS     32u /* of a call */
#define TTI_PACKET_DATA 56u
#define TTI_INLINE_MOST (TTI_PAYLOAD + TTI_PACKETS * TTI_PACKET_DATA)

struct tti_lane_control {
    unsigned char ring[TTI_RING * TTI_LINE];
    unsigned char progress[TTI_PAGE];
    struct tti_packet packets[TTI_RING * TTI_PACKETS];
};
static_assert(TTI_RING * TTI_LINE == TTI_PAGE, "the ring fills a page, so that rotation by rank stays inside it");

/* Why the owner has failed. Written once, `state` last. */
struct tti_fault {
    _Atomic uint32_t state; /* TTI_FAULT_* */
    int32_t cause;          /* tutti_status */
    int32_t lane;           /* or TTI_FAULT_MESSAGES, TTI_FAULT_ANYWHERE */
    int32_t operation;
    uint64_t call;
    uint64_t suspects[TTI_MAX_RANKS / 64];
    int64_t waited_ms; /* TIMEOUT: how long the owner has waited */
    int32_t how;       /* TIMEOUT: how the suspects are late: TTI_LATE_* */
};
enum { TTI_LATE_NOT_ARRIVED, TTI_LATE_BEHIND, TTI_LATE_STUCK, TTI_LATE_COUNT };
enum { TTI_FAULT_NONE = 0, TTI_FAULT_FAILED = 1 };
enum { TTI_FAULT_MESSAGES = TUTTI_LANE_MESSAGES, TTI_FAULT_ANYWHERE = TUTTI_LANE_NONE };

struct tti_segment_header {
    uint32_t magic;
    uint32_t abi;
    uint64_t bytes;
    uint64_t nonce; /* the group's: proves that the mapping is the one meant */
    uint32_t rank;
    uint32_t size;
    uint32_t lanes;
    uint32_t pid;
    uint64_t stage;
    uint64_t stage_far;
    uint64_t stage_small;
    uint32_t cpu_limit;           /* thousandths of a CPU that control groups grant; 0 = no limit */
    uint32_t barriers;            /* the owner can take part in barriers on all CPUs: see publish.c */
    uint64_t cpu_group;           /* processes with the same value share that limit */
    uint64_t cpus[TTI_CPU_WORDS]; /* the owner's affinity mask */
    uint64_t mark;                /* a word of the owner's process, and its address there: see single_copy.c */
    uint64_t mark_at;
    _Atomic uint32_t reads; /* TTI_READS_*: whether the owner can read all others' memory */
    _Atomic uint32_t left;
    uint64_t started; /* the owner's process, beside its number: see proc.h */
    uint64_t space;
    _Atomic uintptr_t life_next; /* entry of the robust list of the owner's liveness monitor: an address there */
    _Atomic uint32_t life;       /* the monitor's thread; the kernel adds FUTEX_OWNER_DIED. 0 = there is no monitor */
    _Atomic uint32_t leaving;    /* in exit(): the owner leaves with the end of its process */
    uint64_t instance;           /* with `started` and `space` */
    _Atomic uint32_t blocks; /* of the memory for groups that share this segment, as far as the owner has it in use */
    _Atomic uint32_t places; /* of its directory that an entry may be in, so far: backends/shm/shares.c */
    /* in a line of its own, since the others read those above when they form such a group */
    _Alignas(64) _Atomic uint32_t formations; /* of such groups: grows with each step of the owner */
};
enum { TTI_READS_UNKNOWN = 0, TTI_READS_ALL = 1, TTI_READS_NOT = 2 };
static_assert(sizeof(struct tti_segment_header) <= TTI_PAGE, "the header fits its page");

/* What a rank publishes for the others of its group when they split it: on the header page. */
struct tti_split {
    _Atomic uint64_t number; /* of the split, from 1; stored last */
    _Atomic uint64_t entry;  /* colour << 32 | key */
};
#define TTI_SPLITS       8u    /* the last ones of a group */
#define TTI_SPLIT_OFFSET 2048u /* on the header page */
static_assert(sizeof(struct tti_segment_header) <= TTI_SPLIT_OFFSET, "the header comes first");
/* In the doorbell, words that all ranks write: see split_ring.c, and tti_raise_alarm. */
#define TTI_SPLIT_DECISION_OFFSET 96u
#define TTI_ALARM_SLEEPERS_OFFSET 104u

/* The process that owns a segment. */
static inline struct tti_proc_id tti_segment_owner(const struct tti_segment_header *h)
{
    return (struct tti_proc_id){.pid = h->pid, .started = h->started, .space = h->space, .instance = h->instance};
}

/* Whether the owner has left in good order, or is about to: its end is no death. */
static inline bool tti_segment_leaves(const struct tti_segment_header *h)
{
    /* acquire, both: everything that the owner publishes comes before */
    return atomic_load_explicit(&h->left, memory_order_acquire) != 0 ||
           atomic_load_explicit(&h->leaving, memory_order_acquire) != 0;
}

/* What the owner publishes to one peer about messages, beside the records. It changes seldom. */
struct tti_pair_control {
    _Atomic uint64_t activity; /* grows after each change of the other words: the peer sleeps on it */
    _Atomic uint64_t opened;   /* 1: the rings towards the peer are there                          */
    _Atomic uint64_t taken;    /* records of the peer that the owner has used up, published from time to time */
    _Atomic uint64_t granted;  /* the message, by its first record, whose rest the owner wants now */
    _Atomic uint64_t target; /* where it wants that: the name of its tensor (p2p/large/zero_copy.c); 0 = in the ring */
    _Atomic uint64_t intent; /* of the pair with itself only: 1 + the rank whose memory the owner touches; 0 = none */
    _Atomic uint64_t costs;  /* in ps a byte that the peer sends: of reading it from the ring << 32 | of the kernel's
                                * copy, 0 = not known; or TTI_PAIR_NEAR: see p2p/large/single_copy.c */
    unsigned char pad[8];
    _Atomic uint64_t fetched[TTI_OFFERS]; /* offers that the owner has taken, by their first records, in turn */
};
static_assert(sizeof(struct tti_pair_control) == TTI_LINE, "one line");
static_assert(offsetof(struct tti_pair_control, fetched) == 64, "a cache line of their own");

#define TTI_PAIR_NEAR 0

/* A chunk of a message. The first one of a message begins with the dimensions, unless there is just one. */
struct tti_record {
    uint64_t bytes; /* of the whole message */
    uint32_t place; /* where the chunk lies in the rings of bytes, or TTI_IN_SLOT */
    uint32_t here;  /* bytes of the chunk, dimensions included */
    int32_t tag;
    int16_t dtype;
    int8_t ndim;
    uint8_t kind; /* TTI_RECORD_* */
};
static_assert(sizeof(struct tti_record) == 24, "no padding");
enum {
    TTI_RECORD_FIRST = 1,
    TTI_RECORD_NEXT = 2,
    TTI_RECORD_GRANTED = 3,
    TTI_RECORD_OFFER = 4,  /* a first one; its chunk is not data, but where they lie */
    TTI_RECORD_WRITTEN = 5 /* without a chunk: the rest of the granted message is where it was wanted */
};
#define TTI_IN_SLOT UINT32_MAX

/* `number`, from 1, is stored last: then the record is there. */
struct tti_slot {
    _Atomic uint64_t number;
    struct tti_record record;
    unsigned char body[TTI_SLOT_BODY];
};
static_assert(sizeof(struct tti_slot) == 2 * TTI_LINE,
              "the data of the smallest messages share the line of the number");

/* Makes a range of the own segment usable without a later SIGBUS; NO_MEMORY otherwise. NULL = always usable. */
typedef tutti_status (*tti_commit_function)(void *user, size_t offset, size_t bytes);

/* Prepares page tables for reading a range of a peer's segment, so that the first read does not fault page by page.
 * `only_reader`: it is data that no third rank reads. True: this rank may write there (see memory/copy.h). */
typedef bool (*tti_populate_function)(void *user, int rank, size_t offset, size_t bytes, bool only_reader);

struct tti_layout {
    int size;
    int lanes;
    size_t stage;       /* bytes of a lane's first ring ... */
    size_t stage_far;   /* of the one behind it, for far readers; 0 = there is none: see stage.c ... */
    size_t stage_small; /* and of the one behind that, for small calls; likewise */
    size_t lane_stages; /* of all three */
    size_t fault;       /* offsets in a segment */
    size_t lane;        /* first lane control */
    size_t pairs;       /* first pair control */
    size_t stages;      /* first lane's stage */
    size_t rings;       /* first pair's rings */
    size_t ring_bytes;  /* of a pair's ring of bytes; whole pages, and a power of two */
    size_t ring_window; /* its first bytes, which are all that most messages use; likewise */
    size_t ring_stride;
    size_t segment_bytes;
    size_t doorbell_bytes;
};

/* Cache lines of 64 bytes, in which spans and their slots are measured. TTI_LINE is two. */
static inline size_t tti_whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline size_t tti_whole_pages(size_t bytes)
{
    return (bytes + TTI_PAGE - 1) / TTI_PAGE * TTI_PAGE;
}

/* The ring of a pair, its window, and what both are in a group of more than TTI_PAIR_FEW ranks. */
#define TTI_PAIR_RING   1048576u
#define TTI_PAIR_WINDOW 262144u
#define TTI_PAIR_SMALL  131072u
#define TTI_PAIR_FEW    16

/* A pair takes memory for its window when it exchanges its first message. A few windows stay in a second-level
 * cache. */
static inline size_t tti_pair_ring_window(int size)
{
    return size <= TTI_PAIR_FEW ? TTI_PAIR_WINDOW : TTI_PAIR_SMALL;
}

/* The whole ring is for long messages (p2p/rings/send.c), which have larger chunks. */
static inline size_t tti_pair_ring_bytes(int size)
{
    return size <= TTI_PAIR_FEW ? TTI_PAIR_RING : TTI_PAIR_SMALL;
}

/* The last three are the bytes of the rings of a stage. */
static inline struct tti_layout tti_layout_make(int size, int lanes, size_t first, size_t far, size_t small)
{
    struct tti_layout l = {.size = size,
                           .lanes = lanes,
                           .stage = tti_whole_pages(first),
                           .stage_far = tti_whole_pages(far),
                           .stage_small = tti_whole_pages(small)};
    l.lane_stages = l.stage + l.stage_far + l.stage_small;
    l.fault = TTI_PAGE;
    l.lane = 2 * TTI_PAGE;
    l.pairs = l.lane + (size_t)lanes * sizeof(struct tti_lane_control);
    l.stages = tti_whole_pages(l.pairs + (size_t)size * TTI_LINE);
    l.rings = l.stages + (size_t)lanes * l.lane_stages;
    l.ring_bytes = tti_pair_ring_bytes(size);
    l.ring_window = tti_pair_ring_window(size);
    l.ring_stride = TTI_SLOTS * sizeof(struct tti_slot) + l.ring_bytes;
    l.segment_bytes = l.rings + (size_t)size * l.ring_stride;
    l.doorbell_bytes = tti_whole_pages(TTI_LINE + (size_t)size * (size_t)(lanes + 1) * TTI_LINE);
    return l;
}

#endif
