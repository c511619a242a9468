/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps inside a host on the slices of a chunk: one rail reduces one slice, or all ranks get all slices. */
#ifndef TTI_BACKENDS_HIER_STEPS_SLICE_STEPS_H
#define TTI_BACKENDS_HIER_STEPS_SLICE_STEPS_H

#include "backends/hier/steps/fold.h"
#include "backends/hier/steps/steps.h"

/* reduce_scatter of chunk k of the call's input: `slice` gets this rank's slice. `wide` (or NULL) has room for the
 * chunk in the type of the fold, and gets the widened input. */
tutti_status tti_hier_reduce_slices(struct tti_hier_call *c, const struct tti_hier_fold *f, size_t k,
                                    unsigned char *wide, unsigned char *slice, tutti_error *error);

/* all_gather of the slices of chunk k, in place in the call's output. `item`: bytes of an element in which the vector
 * was cut into chunks. */
tutti_status tti_hier_gather_slices(struct tti_hier_call *c, size_t item, size_t k, tutti_error *error);

#endif
