/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of the flight recorder: the latest operations of one process, readable while it hangs and after it was
 * killed.
 *
 * It is one file of fixed size for each process, mapped shared: a memory file of `tutti run`, one of the process, or a
 * file in the folder of TUTTI_TRACE_DIR. Any process that has the file open may read it at any time
 * (tools/trace/snapshot.h).
 *
 *   head      the process, and counters for each kind of operation
 *   groups    of which the process is or was a member
 *   tallies   one for each call in the call cache (core/call/cache/entry.h): its begins and ends, and its last number
 *   ring      the last 4096 other operations, one entry each
 *
 * A small call from the call cache is only counted in the tally of its thread: six instructions, no clock, no atomic.
 * So small calls never push large ones out of the ring. Every other call gets an entry. Calls of at least
 * TTI_FLIGHT_TIMED bytes get both times, whose cost is negligible beside the copy; with the setting "full" all get
 * them. A call that waits for long writes since when into its tally (tutti_op.waits_since), so that a hang has a
 * beginning.
 *
 * One thread writes a tally and the state of an entry; other processes read them and check all. So plain stores
 * suffice. Threads share the counters and the ring's position, which are atomic.
 */
#ifndef TTI_DIAG_RECORD_H
#define TTI_DIAG_RECORD_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/collectives.h>

#define TTI_FLIGHT_MAGIC   UINT64_C(0x746867696c667474) /* "ttflight" */
#define TTI_FLIGHT_ABI     2u
#define TTI_FLIGHT_RING    4096u
#define TTI_FLIGHT_TALLIES 1024u
#define TTI_FLIGHT_GROUPS  64u
#define TTI_FLIGHT_KINDS   32
#define TTI_FLIGHT_LANES   16
#define TTI_FLIGHT_TIMED   ((size_t)256 << 10)

/* The variable with the descriptor that the process inherits from its launcher. */
#define TTI_FLIGHT_VARIABLE "TUTTI_FLIGHT_FD"
#define TTI_FLIGHT_MEMORY   "tutti-flight" /* the name of memory files */

struct tti_flight_counter {
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;
    _Atomic uint64_t failures;
};

struct tti_flight_head {
    uint64_t magic;
    uint32_t abi;
    uint32_t bytes;
    _Atomic uint32_t owner; /* the process that writes; 0 = none yet */
    uint32_t full;          /* the setting is "full" */
    uint64_t started;       /* of that process, and its namespace: see base/process/proc.h */
    uint64_t space;
    int64_t begun_ns; /* CLOCK_MONOTONIC at its beginning; CLOCK_REALTIME minus that */
    int64_t realtime_offset_ns;
    int32_t rank; /* in the world; -1 = not known yet */
    int32_t world_size;
    char host[64];
    char job[80];
    _Atomic uint32_t unrecorded;        /* groups that found no free slot */
    _Alignas(64) _Atomic uint64_t next; /* number of the ring's next entry, from 0 */
    _Alignas(64) struct tti_flight_counter counters[TTI_FLIGHT_KINDS];
};

/* OPENING: the rank waits for the other members in the call that makes the group. */
enum { TTI_FLIGHT_FREE = 0, TTI_FLIGHT_ALIVE = 1, TTI_FLIGHT_ENDED = 2, TTI_FLIGHT_OPENING = 3 };

struct tti_flight_group {
    _Atomic uint32_t state;
    uint32_t id; /* 16 bits: the slot, and above it the number of its uses. Entries and tallies name it */
    int32_t rank;
    int32_t size;
    int32_t world_rank;
    int32_t lanes;
    int64_t opened_ns;
    char name[64]; /* equal on all members, unique in the job */
    char backend[16];
    uint32_t opened_by; /* the operation that creates it */
    uint32_t unused;
    _Atomic uint64_t last[TTI_FLIGHT_LANES]; /* number of the last operation that has ended, without tallies */
    int64_t reserved;
};
static_assert(sizeof(struct tti_flight_group) == 256, "no padding");
#define TTI_FLIGHT_SLOT(id) ((id) % TTI_FLIGHT_GROUPS)

struct tti_flight_op {
    uint64_t count;
    uint64_t bytes;
    uint8_t kind;
    uint8_t dtype;
    uint8_t redop;
    uint8_t lane;
    int32_t root; /* or peer */
};

struct tti_flight_tally {
    _Alignas(64) uint64_t begun;
    uint64_t ended;
    int64_t since_ns; /* since when the running call waits; 0 = not for long */
    uint64_t last;    /* number of the last call that ended. Not beside `ended`: joining the two stores is slow */
    struct tti_flight_op what;
    uint16_t group;
    uint16_t used;
    int32_t tag; /* of messages */
};
static_assert(sizeof(struct tti_flight_tally) == 64, "one cache line");

#define TTI_FLIGHT_RUNNING (-1) /* the status of an operation that has not ended */

struct tti_flight_entry {
    _Alignas(64) _Atomic uint64_t number; /* from 1, stored last; entry n is at place (n - 1) % 4096 */
    int64_t begun_ns;
    int64_t ended_ns;  /* both 0: not timed */
    uint64_t sequence; /* 0 = known at its end: the next one of its lane */
    struct tti_flight_op what;
    uint16_t group;
    int16_t status;
    int32_t tag; /* of a message. Of a collective: the number of calls of a released tally; 0 = one call */
};
static_assert(sizeof(struct tti_flight_entry) == 64, "one cache line");

#define TTI_FLIGHT_AT_GROUPS  4096u
#define TTI_FLIGHT_AT_TALLIES (TTI_FLIGHT_AT_GROUPS + TTI_FLIGHT_GROUPS * sizeof(struct tti_flight_group))
#define TTI_FLIGHT_AT_RING    (TTI_FLIGHT_AT_TALLIES + TTI_FLIGHT_TALLIES * sizeof(struct tti_flight_tally))
#define TTI_FLIGHT_BYTES      (TTI_FLIGHT_AT_RING + TTI_FLIGHT_RING * sizeof(struct tti_flight_entry))
static_assert(sizeof(struct tti_flight_head) <= TTI_FLIGHT_AT_GROUPS, "the head fits its page");

#endif
