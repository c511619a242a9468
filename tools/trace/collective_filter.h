/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which collectives an analyser is to see that takes a rank without an entry for one that has not come. Of those that have
 * ended well, those are left out that some member has begun as well but has no entry of: it has been counted there, or its
 * entry has been written over. So are those whose sizes differ, which may be so in forms with counts.
 *
 * Cost: all operations of all ranks are sorted once; each question reads the members of its group.
 */
#ifndef TTI_TRACE_COLLECTIVE_FILTER_H
#define TTI_TRACE_COLLECTIVE_FILTER_H

#include "trace/record.h"

/* That a member has an entry of an operation, or, with `begun`, how far it has come in that lane. */
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

/* Holds on to the records. False if there is no memory. */
bool tti_collective_filter_make(struct tti_collective_filter *told, const struct tti_record *records, size_t count);
void tti_collective_filter_free(struct tti_collective_filter *told);

/* No message, and one that has its number. */
bool tti_is_collective(const struct tti_snapshot_op *op);
bool tti_collective_is_kept(const struct tti_collective_filter *told, const struct tti_snapshot *s,
                            const struct tti_snapshot_op *op);

#endif
