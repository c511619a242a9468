/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives, each in the file of its name: steps on the engines, with the cost on top. */
#ifndef TTI_BACKENDS_HIER_COLLECTIVES_COLLECTIVES_H
#define TTI_BACKENDS_HIER_COLLECTIVES_COLLECTIVES_H

#include "backends/hier/steps/steps.h"

tutti_status tti_hier_all_reduce(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_reduce(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_broadcast(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_all_gather(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_gather(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_scatter(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_reduce_scatter(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_all_to_all(struct tti_hier_call *c, tutti_error *error);
tutti_status tti_hier_barrier(struct tti_hier_call *c, tutti_error *error);

#endif
