/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of one rail between hosts, and their memory. */
#ifndef TTI_BACKENDS_HIER_STEPS_RAILS_H
#define TTI_BACKENDS_HIER_STEPS_RAILS_H

#include "backends/hier/steps/pipeline.h"
#include "backends/hier/steps/windows.h"

/* The memory of a collective in windows: two buffers each, since two windows are in progress. `all` is used by one at a
 * time. */
struct tti_windows_plan {
    struct tti_windows windows;
    unsigned char *shared[2]; /* the parts of this host's ranks on the rail */
    unsigned char *rail[2];   /* the parts of all ranks on the rail         */
    unsigned char *all;       /* of all ranks                               */
};

/* Allocates the buffers, for elements of `item` bytes (at least the window's unit). */
tutti_status tti_windows_memory(struct tti_hier_call *c, struct tti_windows_plan *plan, size_t item, bool with_all,
                                tutti_error *error);

/* Writes the elements of each host on the own rail to `list`; returns their sum. */
size_t tti_window_list(const struct tti_hier_call *c, const struct tti_windows *w, size_t k, int64_t *list);

/* Gathers all hosts' `shared` in one host's `rail`, or scatters that. */
tutti_status tti_window_to_host(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                                tutti_error *error);
tutti_status tti_window_from_host(struct tti_hier_call *c, const struct tti_windows_plan *plan, size_t k, int32_t host,
                                  tutti_error *error);

/* A pipeline over the windows of a joined tensor whose elements are sent as they are: p->user is a tti_windows_plan.
 * `parts` and `equal` as in tti_windows. */
tutti_status tti_windows_run(struct tti_hier_call *c, const struct tti_pipeline_steps *steps, const tutti_parts *parts,
                             size_t equal, bool with_all, tutti_error *error);

#endif
