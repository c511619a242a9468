/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective in progress, and its operations on the engines of the group. */
#ifndef TTI_BACKENDS_HIER_STEPS_STEPS_H
#define TTI_BACKENDS_HIER_STEPS_STEPS_H

#include "backends/hier/types.h"

struct tti_hier_call {
    struct tti_hier *s;
    struct tti_hier_lane *lane;
    tutti_op *op;
    int64_t begun_ns;
    size_t item; /* bytes of an element */
    bool first;  /* the step inside is the first one: a rank that is missing there has not arrived at the call */
};

/* An operation for an engine, with lane, deadline and tag of the call. The caller fills the rest. */
tutti_op tti_hier_step(const struct tti_hier_call *c, tutti_operation kind, tutti_dtype dtype);

/* Run it inside this host, on the own rail, on all ranks. A failure fails the group. */
tutti_status tti_hier_run_intra_host(struct tti_hier_call *c, tutti_op *op, tutti_error *error);
tutti_status tti_hier_run_inter_host(struct tti_hier_call *c, tutti_op *op, tutti_error *error);
tutti_status tti_hier_run_flat(struct tti_hier_call *c, tutti_op *op, tutti_error *error);

/* Contiguous parts in one row, counted in units of `unit` bytes. */
static inline tutti_parts tti_hier_row(const int64_t *counts, size_t total, size_t unit)
{
    return (tutti_parts){.outer = 1, .pitch = total * unit, .unit = unit, .counts = counts};
}

/* Scratch memory of the lane, valid until the next request. NULL: there is none, and the group has failed, since the
 * other ranks stay in the call. */
unsigned char *tti_hier_scratch(struct tti_hier_call *c, size_t bytes, tutti_error *error);

#endif
