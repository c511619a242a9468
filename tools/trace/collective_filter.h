/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the collectives for an analyser that reports a rank without an entry as missing. A collective that has
 * succeeded is left out if a member has begun it but has no entry: the member only counted it in a tally, or has
 * overwritten its entry. It is also left out if its sizes differ, as they may in forms with counts.
 *
 * Cost: all operations of all ranks are sorted once; each query reads the members of its group.
 */
#ifndef TTI_TRACE_COLLECTIVE_FILTER_H
#define TTI_TRACE_COLLECTIVE_FILTER_H

#include "trace/record.h"

/* A member has an entry of an operation, or, with `begun`, has begun the lane's operations up to it. */
struct tti_filter_point {
    const char *group;
    int lane;
    bool begun;
    uint64_t sequence;
    uint64_t elements;
};

struct tti_collective_filter {
    struct tti_filter_point *points; /* sorted */
    size_t count;
};

/* Keeps pointers to the records. False if there is no memory. */
bool tti_collective_filter_make(struct tti_collective_filter *filter, const struct tti_record *records, size_t count);
void tti_collective_filter_free(struct tti_collective_filter *filter);

/* Whether the operation is a collective that has its number. */
bool tti_is_collective(const struct tti_snapshot_op *op);
bool tti_collective_is_kept(const struct tti_collective_filter *filter, const struct tti_snapshot *s,
                            const struct tti_snapshot_op *op);

#endif
