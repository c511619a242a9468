/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who waits for whom, from the snapshots of several ranks. Members of one group are found by the group's name. A rank waits if
 * it is in an operation, and in the same one as a moment before if there is an earlier snapshot: what moves is no hang. In a
 * collective it waits for those that have not begun it; in a rooted one that needs only the root, for the root; in a message,
 * for the peer; while a group is opened, for those that do not open it or have it. If everybody has come, it waits for those
 * whose process does not run; if all of them do, it does not count as waiting, for nobody holds it up.
 *
 * The culprits are ranks that are waited for and wait for nobody, or cannot run. If there are none, some ranks wait in a circle.
 */
#ifndef TTI_DIAG_HANG_H
#define TTI_DIAG_HANG_H

#include "diag/snapshot.h"

struct tti_hang_rank {
    int32_t rank;                        /* in the world */
    const struct tti_snapshot *snapshot; /* NULL: it has recorded nothing */
    const struct tti_snapshot *before;   /* of a moment ago; NULL: there is none, and all that runs counts as waiting */
    enum tti_proc_state state;
};

#define TTI_HANG_NAMED 8

/* A rank: a process, or a thread of one that is several. What follows names ranks by their places in the list of these. */
struct tti_hang_node {
    int process;  /* index of what was passed */
    int32_t rank; /* in the world */
};

struct tti_hang_wait {
    int who;
    const struct tti_snapshot_op *op;
    int missing_count;
    int missing[TTI_HANG_NAMED]; /* the first ones */
    int unseen;                  /* members without a snapshot here: on other hosts, or not recorded */
    bool all_arrived;            /* everybody has begun it; then `missing` are those that do not run */
};

struct tti_hang_suspect {
    int who;
    int waiting;                            /* so many ranks wait for it */
    const struct tti_hang_wait *first_wait; /* the first of those waits */
};

struct tti_hang {
    int node_count;
    struct tti_hang_node *nodes; /* those of a process follow one another; each process has one at least */
    int wait_count;
    struct tti_hang_wait *waits;
    int suspect_count;
    struct tti_hang_suspect *suspects; /* most waited for first */
    int cycle_count;
    int *cycle; /* each waits for the next one, the last for the first */
};

/* False if there is no memory. */
bool tti_hang_find(const struct tti_hang_rank *ranks, int count, struct tti_hang *hang);
void tti_hang_free(struct tti_hang *hang);

#endif
