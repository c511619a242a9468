/* SPDX-License-Identifier: BSD-3-Clause */
/* Recording groups and operations in the flight recorder (record.h). Any thread may call any function. */
#ifndef TTI_DIAG_FLIGHT_H
#define TTI_DIAG_FLIGHT_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "diag/record.h"

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

/* The slot of a new group, which is OPENING until tti_flight_open; NULL: it is not recorded. The first group of the
 * process makes the memory. Recording is optional: a failure is no error. A group that leaves while OPENING is removed.
 * Both accept NULL. */
struct tti_flight_group *tti_flight_join(const struct tti_flight_member *member, enum tti_flight_mode mode);
void tti_flight_open(struct tti_flight_group *group, const char *backend);
void tti_flight_leave(struct tti_flight_group *group);

/* Releases the memory that this process has made, if it has no groups. A launcher's memory stays for later groups. */
void tti_flight_finish(void);

/* Records the beginning of an operation. Returns the number of its entry, or 0. begun_ns 0: now, if the call is
 * timed. */
uint64_t tti_flight_begin(struct tti_flight_group *group, const struct tti_flight_op *what, int32_t tag,
                          int64_t begun_ns);
/* Where a backend stores since when it waits in that operation (tutti_op.waits_since), or NULL. */
int64_t *tti_flight_waits_since(uint64_t number);
/* The operation has its number in the order of its lane / has ended. */
void tti_flight_arrived(uint64_t number, int64_t sequence);
void tti_flight_end(struct tti_flight_group *group, uint64_t number, const struct tti_flight_op *what, int64_t sequence,
                    tutti_status status);

/* The description of an operation of so many bytes. */
static inline struct tti_flight_op tti_flight_op_of(const tutti_op *op, size_t bytes)
{
    return (struct tti_flight_op){.count = op->count,
                                  .bytes = bytes,
                                  .kind = (uint8_t)op->kind,
                                  .dtype = (uint8_t)op->dtype,
                                  .redop = (uint8_t)op->redop,
                                  .lane = (uint8_t)op->lane,
                                  .root = op->root};
}

/* The same for many messages that begin and end together: reserve as many entries, from the number returned on; 0: they
 * are not recorded. Of those that are not timed both times are 0. tti_flight_put returns what tti_flight_waits_since
 * does. At the end each gets its status, and all of a kind are counted at once. */
uint64_t tti_flight_reserve(const struct tti_flight_group *group, uint64_t count);
int64_t *tti_flight_put(const struct tti_flight_group *group, uint64_t number, const tutti_op *op, size_t bytes,
                        int64_t begun_ns);
void tti_flight_settle(uint64_t number, int64_t sequence, tutti_status status, int64_t ended_ns);
void tti_flight_count(tutti_operation kind, uint64_t calls, uint64_t bytes, uint64_t failures);

/* From so many bytes on an operation is timed. Then it uses no tally. */
size_t tti_flight_timed_from(void);

static inline bool tti_flight_is_timed(size_t bytes)
{
    return bytes >= tti_flight_timed_from();
}

/* A tally for calls of one kind by one thread, or NULL; of messages, with one tag. Its release adds it to the counters,
 * and adds one entry for its calls. */
struct tti_flight_tally *tti_flight_tally_take(const struct tti_flight_group *group, const struct tti_flight_op *what,
                                               int32_t tag);
void tti_flight_tally_give(struct tti_flight_tally *tally);

/* A call of a tally begins / ends. Plain stores: see record.h. */
static inline void tti_flight_call_begin(struct tti_flight_tally *tally)
{
    tally->begun++;
}

static inline void tti_flight_call_end(struct tti_flight_tally *tally, int64_t sequence)
{
    tally->ended++;
    tally->last = (uint64_t)sequence;
}

/* Since when the running call waits; 0: it does not, or there is none. */
static inline void tti_flight_set_since(struct tti_flight_tally *tally, int64_t since_ns)
{
    /* relaxed: read by other processes only */
    atomic_store_explicit((_Atomic int64_t *)&tally->since_ns, since_ns, memory_order_relaxed);
}

/* Moves a call that has ended and failed from its tally to an entry of its own. */
void tti_flight_call_failed(struct tti_flight_tally *tally, tutti_status status);

#endif
