/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks whose steps inside and between hosts overlap. */
#ifndef TTI_BACKENDS_HIER_STEPS_PIPELINE_H
#define TTI_BACKENDS_HIER_STEPS_PIPELINE_H

#include "backends/hier/steps/steps.h"

/*
 * Each chunk of a tensor takes three steps: one inside the host, one between hosts, one inside the host. The helper
 * runs the middle step of a chunk, while this thread runs the last step of the chunk before and the first step of the
 * next one. That chunk's middle step is posted before the helper has ended its own, so that the link does not wait for
 * this thread. At most two chunks are in progress, and chunk k may use the memory of chunk k - 2.
 */
struct tti_pipeline {
    struct tti_hier_call *c;
    const struct tti_pipeline_steps *steps;
    void *user;
    size_t chunks;
    size_t begun; /* chunks whose steps between hosts have begun; the helper's */
};

/* Each may be NULL. */
struct tti_pipeline_steps {
    tutti_status (*before)(struct tti_pipeline *p, size_t k, tutti_error *error);
    tutti_status (*between)(struct tti_pipeline *p, size_t k, tutti_error *error);
    tutti_status (*after)(struct tti_pipeline *p, size_t k, tutti_error *error);
};

tutti_status tti_pipeline_run(struct tti_hier_call *c, const struct tti_pipeline_steps *steps, void *user,
                              size_t chunks, tutti_error *error);

#endif
