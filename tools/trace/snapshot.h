/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reading side of the flight recorder: a checked copy of one process's memory. The writer may be running, dead, or
 * hostile. The reader first copies all, then checks: it drops impossible values and replaces unprintable characters. It
 * also drops entries that were overwritten during the copy. An operation that begins or ends during the copy may lack
 * its times.
 *
 * A group that is being opened counts as a running operation of the kind TUTTI_OP_INIT or similar.
 */
#ifndef TOOLS_TRACE_SNAPSHOT_H
#define TOOLS_TRACE_SNAPSHOT_H

#include "base/process/proc.h"
#include "diag/record.h"

struct tti_snapshot_group {
    char name[64];
    char backend[16];
    int32_t rank;
    int32_t size;
    int32_t world_rank;
    int32_t lanes;
    int64_t opened_ns;
    bool alive;
    bool opening;
    uint32_t id;
    uint64_t last[TTI_FLIGHT_LANES];   /* number of the last collective that has ended, 0 = none */
    int32_t running[TTI_FLIGHT_LANES]; /* the collective that runs: index of the op; -1 = none */
};

/* The core names a world "w" and its number; other groups have other first letters. A member of a world has the same
 * rank in the group and in the world. */
static inline bool tti_snapshot_is_world(const struct tti_snapshot_group *group)
{
    return group->name[0] == 'w';
}

struct tti_snapshot_op {
    struct tti_flight_op what;
    int group; /* index */
    int32_t tag;
    int32_t status;    /* TTI_FLIGHT_RUNNING: it has not ended */
    uint64_t number;   /* in the ring; 0 = of a tally */
    uint64_t calls;    /* ended calls of a tally; else 1 */
    uint64_t sequence; /* 0 = not known */
    int64_t begun_ns;  /* 0 = not known, both */
    int64_t ended_ns;
};

struct tti_snapshot_counter {
    uint64_t calls;
    uint64_t bytes;
    uint64_t failures;
};

struct tti_snapshot {
    char host[64];
    char job[80];
    struct tti_proc_id process; /* pid 0: none yet */
    int32_t rank;               /* in the world, -1 = not known */
    int32_t world_size;
    int64_t begun_ns;
    int64_t realtime_offset_ns; /* CLOCK_REALTIME minus CLOCK_MONOTONIC */
    bool full;
    uint32_t unrecorded;                                    /* groups that found no free slot */
    struct tti_snapshot_counter counters[TTI_FLIGHT_KINDS]; /* tallies included */
    int group_count;
    struct tti_snapshot_group groups[TTI_FLIGHT_GROUPS];
    size_t op_count; /* by their beginning; then the tallies, by their last calls */
    struct tti_snapshot_op *ops;
};

/* From the bytes of a recorder's memory. False: *why is the end of a sentence. */
bool tti_snapshot_parse(const void *bytes, size_t size, struct tti_snapshot *snapshot, const char **why);

/* From an open file. */
bool tti_snapshot_read(int fd, struct tti_snapshot *snapshot, const char **why);

void tti_snapshot_free(struct tti_snapshot *snapshot);

static inline bool tti_snapshot_is_message(const struct tti_snapshot_op *op)
{
    return op->what.kind == TUTTI_OP_SEND || op->what.kind == TUTTI_OP_RECV;
}

static inline bool tti_snapshot_is_opening(const struct tti_snapshot_op *op)
{
    return op->what.kind > TUTTI_OP_RECV;
}

static inline bool tti_snapshot_is_running(const struct tti_snapshot_op *op)
{
    return op->status == TTI_FLIGHT_RUNNING;
}

#endif
