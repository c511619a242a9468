/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank waits for which, from the snapshots of several ranks: a wait-for graph (Holt, 1972). Members of a group
 * have the same group name. A rank waits if it is in an operation, and was in the same one in the earlier snapshot, if
 * there is one.
 *
 *   collective         it waits for the ranks that have not begun it; if only the root can delay it, for the root
 *   message            for the peer
 *   opening a group    for the ranks that neither open it nor have it
 *   all have begun it  for the ranks whose process does not run; if all run, the rank does not count as waiting
 *
 * Suspects are ranks for which others wait and that wait for none or cannot run. Without a suspect there is a cycle.
 */
#ifndef TOOLS_TRACE_HANG_H
#define TOOLS_TRACE_HANG_H

#include "trace/snapshot.h"

struct tti_hang_rank {
    int32_t rank;                        /* in the world */
    const struct tti_snapshot *snapshot; /* NULL: it has recorded none */
    const struct tti_snapshot *before;   /* the earlier one; NULL: each running operation counts as waiting */
    enum tti_proc_state state;
};

#define TTI_HANG_NAMED 8

/* A rank: a process, or a thread of a process with several ranks. The numbers below are indices into the list of
 * nodes. */
struct tti_hang_node {
    int process;  /* index into the ranks passed */
    int32_t rank; /* in the world */
};

struct tti_hang_wait {
    int node_index;
    const struct tti_snapshot_op *op;
    int missing_count;
    int missing[TTI_HANG_NAMED]; /* the first ones */
    int unseen;                  /* members without a snapshot: on other hosts, or not recorded */
    bool all_arrived;            /* all have begun it; `missing` are the ranks that do not run */
};

struct tti_hang_suspect {
    int node_index;
    int waiting;                            /* ranks that wait for it */
    const struct tti_hang_wait *first_wait; /* the first of those waits */
};

struct tti_hang {
    int node_count;
    struct tti_hang_node *nodes; /* grouped by process; each process has at least one */
    int wait_count;
    struct tti_hang_wait *waits;
    int suspect_count;
    struct tti_hang_suspect *suspects; /* most waiting ranks first */
    int cycle_count;
    int *cycle; /* each waits for the next one, the last for the first */
};

/* False if there is no memory. */
bool tti_hang_find(const struct tti_hang_rank *ranks, int count, struct tti_hang *hang);
void tti_hang_free(struct tti_hang *hang);

#endif
