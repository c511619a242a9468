/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: what this process has asked of its groups lately, in memory that others can read while it hangs and
 * after it was killed.
 *
 * It is one file of fixed size for each process, mapped shared: a memory file that `tutti run` has made and keeps open, one
 * that the process makes itself, or a file in the folder of TUTTI_TRACE_DIR. Whoever has it open reads it at any time; see
 * snapshot.h.
 *
 *   head      whose it is, counters for each kind of operation
 *   groups    of which the process is or was a member
 *   tallies   one for each remembered call (core/call/call_cache.h): how often it has begun and ended, and its last number
 *   ring      the last 4096 other operations, one entry each
 *
 * A small call that is recalled is only counted, in the tally that its thread owns: six instructions, no time, no atomic.
 * So small calls never push larger ones out of the ring either. Everything else gets an entry: those of at least
 * TTI_FLIGHT_TIMED bytes with both times, which are nothing beside moving the bytes, and all of them if the setting is
 * "full". What waits for long says so in its tally (tutti_op.waits_since), so a hang has a beginning.
 *
 * A tally and the state of an entry are written by one thread and read by other processes, which take nothing on trust:
 * plain stores do. Counters and the ring's position are shared by threads.
 */
#ifndef TTI_DIAG_FLIGHT_H
#define TTI_DIAG_FLIGHT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/collectives.h>

#define TTI_FLIGHT_MAGIC   UINT64_C(0x746867696c667474) /* "ttflight" */
#define TTI_FLIGHT_ABI     1u
#define TTI_FLIGHT_RING    4096u
#define TTI_FLIGHT_TALLIES 1024u
#define TTI_FLIGHT_GROUPS  64u
#define TTI_FLIGHT_KINDS   32
#define TTI_FLIGHT_LANES   16
#define TTI_FLIGHT_TIMED   ((size_t)64 << 10)

/* The variable by which a launcher names the descriptor that the process inherits. */
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
    _Atomic uint32_t owner; /* the process that writes; 0 = none has begun */
    uint32_t full;          /* the setting is "full" */
    uint64_t started;       /* of that process, and its namespace: see base/proc.h */
    uint64_t space;
    int64_t begun_ns; /* CLOCK_MONOTONIC when it began, and how far CLOCK_REALTIME was beyond that */
    int64_t realtime_offset_ns;
    int32_t rank; /* in the world; -1 = not known (yet) */
    int32_t world_size;
    char host[64];
    char job[80];
    _Atomic uint32_t unrecorded;        /* so many groups found no place */
    _Alignas(64) _Atomic uint64_t next; /* number of the ring's next entry, from 0 */
    _Alignas(64) struct tti_flight_counter counters[TTI_FLIGHT_KINDS];
};

/* OPENING: the rank waits for the other members in the call that makes the group. */
enum { TTI_FLIGHT_FREE = 0, TTI_FLIGHT_ALIVE = 1, TTI_FLIGHT_ENDED = 2, TTI_FLIGHT_OPENING = 3 };

struct tti_flight_group {
    _Atomic uint32_t state;
    uint32_t id; /* 16 bits: slot, and above it how often that was used. What entries and tallies say */
    int32_t rank;
    int32_t size;
    int32_t world_rank;
    int32_t lanes;
    int64_t opened_ns;
    char name[64]; /* the same on all members, and of no other group of the job */
    char backend[16];
    uint32_t opened_by; /* the operation that makes it */
    uint32_t unused;
    _Atomic uint64_t last[TTI_FLIGHT_LANES]; /* number of the last operation that has ended, tallies aside */
    int64_t reserved;
};
static_assert(sizeof(struct tti_flight_group) == 256, "no padding");
#define TTI_FLIGHT_SLOT(id) ((id) % TTI_FLIGHT_GROUPS)

/* What an operation is. */
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
    int64_t since_ns; /* the one that runs has been waiting since then; 0 = not for long */
    uint64_t
        last; /* number of the last one that has ended. Not beside `ended`: compilers join the two stores, dearly */
    struct tti_flight_op what;
    uint32_t group;
    uint32_t used;
};
static_assert(sizeof(struct tti_flight_tally) == 64, "one cache line");

#define TTI_FLIGHT_RUNNING (-1) /* the status of what has not ended */

struct tti_flight_entry {
    _Alignas(64) _Atomic uint64_t number; /* from 1, stored last; the ring has entry n at place (n - 1) % 4096 */
    int64_t begun_ns;
    int64_t ended_ns;  /* both 0: small, not timed */
    uint64_t sequence; /* 0 = not known before it has ended: the next one of its lane */
    struct tti_flight_op what;
    uint16_t group;
    int16_t status;
    int32_t tag; /* of messages. Collectives: so many were alike, in a tally that was given back; 0 = one */
};
static_assert(sizeof(struct tti_flight_entry) == 64, "one cache line");

#define TTI_FLIGHT_AT_GROUPS  4096u
#define TTI_FLIGHT_AT_TALLIES (TTI_FLIGHT_AT_GROUPS + TTI_FLIGHT_GROUPS * sizeof(struct tti_flight_group))
#define TTI_FLIGHT_AT_RING    (TTI_FLIGHT_AT_TALLIES + TTI_FLIGHT_TALLIES * sizeof(struct tti_flight_tally))
#define TTI_FLIGHT_BYTES      (TTI_FLIGHT_AT_RING + TTI_FLIGHT_RING * sizeof(struct tti_flight_entry))
static_assert(sizeof(struct tti_flight_head) <= TTI_FLIGHT_AT_GROUPS, "the head fits its page");

/* ---- making one: file.c ---------------------------------------------------------------------------------------------- */

/* A memory file, or one in a folder (whose name ends it), with the head of a process that has not begun. Returns the
 * descriptor, close-on-exec, or -1 with errno. `name` NULL: a memory file. */
int tti_flight_make(const char *name, const char *job, int32_t rank, int32_t world_size);

/* Whether that is one: its size and its head. */
bool tti_flight_is(int fd);

/* ---- writing: flight.c ----------------------------------------------------------------------------------------------- */

enum tti_flight_mode { TTI_FLIGHT_OFF, TTI_FLIGHT_ON, TTI_FLIGHT_FULL };

struct tti_flight_member {
    const char *name;
    int32_t rank;
    int32_t size;
    int32_t world_rank; /* of this rank */
    int32_t lanes;
    tutti_operation opened_by; /* TUTTI_OP_INIT and the like */
    bool is_world;
};

/* Where a group is recorded; NULL: nowhere. The first one of the process makes the memory. Never fails: who cannot record
 * works on. It is being opened until it is said to be open, and is forgotten if it is left before. Both take NULL. */
struct tti_flight_group *tti_flight_join(const struct tti_flight_member *member, enum tti_flight_mode mode);
void tti_flight_open(struct tti_flight_group *group, const char *backend);
void tti_flight_leave(struct tti_flight_group *group);

/* The process has no groups any more: gives back what it has made itself. What a launcher has made is kept for groups to come. */
void tti_flight_finish(void);

/* Notes that an operation begins; the number of its entry, 0 = none. begun_ns 0: now, if it is worth a look at the clock. */
uint64_t tti_flight_begin(struct tti_flight_group *group, const struct tti_flight_op *what, int32_t tag,
                          int64_t begun_ns);
/* Where a backend may say since when it has been waiting in that operation (tutti_op.waits_since); NULL: nowhere. */
int64_t *tti_flight_waits_since(uint64_t number);
/* It has got its place in the order, or has ended. */
void tti_flight_arrived(uint64_t number, int64_t sequence);
void tti_flight_end(struct tti_flight_group *group, uint64_t number, const struct tti_flight_op *what, int64_t sequence,
                    tutti_status status);

/* Whether such an operation gets its times: then it is no matter for a tally. */
bool tti_flight_is_timed(const struct tti_flight_op *what);

/* A tally for calls of one kind by one thread; NULL: there is none left. Giving it back adds it to the counters, and leaves an
 * entry for all of them. */
struct tti_flight_tally *tti_flight_tally_take(const struct tti_flight_group *group, const struct tti_flight_op *what);
void tti_flight_tally_give(struct tti_flight_tally *tally);

/* A call of a tally begins and ends. Plain stores, see above. */
static inline void tti_flight_call_begin(struct tti_flight_tally *tally)
{
    tally->begun++;
}

static inline void tti_flight_call_end(struct tti_flight_tally *tally, int64_t sequence)
{
    tally->ended++;
    tally->last = (uint64_t)sequence;
}

/* ... and has failed: taken from its tally, it gets an entry of its own. */
void tti_flight_call_failed(struct tti_flight_tally *tally, tutti_status status);

#endif
