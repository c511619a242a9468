/* SPDX-License-Identifier: BSD-3-Clause */
/* Joined tensors in windows, and the steps inside a host that copy them. */
#ifndef TTI_BACKENDS_HIER_STEPS_WINDOWS_H
#define TTI_BACKENDS_HIER_STEPS_WINDOWS_H

#include "backends/hier/steps/steps.h"

/*
 * Window k of a joined tensor holds the same range of every part. In scratch memory its elements are in rail order:
 * rail by rail, there host by host, there by local rank. A rank without a rail of its own uses rail local_rank % rails.
 */
struct tti_windows {
    const struct tti_hier *s;
    size_t unit;  /* bytes of an element */
    size_t step;  /* the most elements of a part in a window */
    size_t count; /* windows */
    size_t equal; /* elements of every part, if `parts` is NULL */
    const tutti_parts *parts;
};

void tti_windows_make(const struct tti_hier *s, const tutti_parts *parts, size_t equal, size_t unit,
                      struct tti_windows *w);
/* Elements in window k: of one host's ranks on a rail; of a rail. */
size_t tti_window_host(const struct tti_windows *w, size_t k, int32_t rail, int32_t host);
size_t tti_window_rail(const struct tti_windows *w, size_t k, int32_t rail);
/* The most elements of a window: of a rail; of all ranks. */
size_t tti_windows_rail_most(const struct tti_windows *w);
size_t tti_windows_most(const struct tti_windows *w);

/* Copies window k of the whole joined tensor into rail order, or back. */
void tti_window_pack(const struct tti_windows *w, size_t k, const void *joined, const tutti_parts *parts,
                     unsigned char *to);
void tti_window_unpack(const struct tti_windows *w, size_t k, const unsigned char *from, const tutti_parts *parts,
                       void *joined);

/* Moves window k of the own part to `shared` on the rank of this host that is in its rail, or back. `shared` has the
 * parts of all ranks of this host on that rail. */
tutti_status tti_window_to_rail(struct tti_hier_call *c, const struct tti_windows *w, size_t k, const void *part,
                                void *shared, tutti_error *error);
tutti_status tti_window_from_rail(struct tti_hier_call *c, const struct tti_windows *w, size_t k, const void *shared,
                                  void *part, tutti_error *error);

/* Inside this host: gathers the windows of the rails in `all` on local rank `to`, or scatters them from local rank
 * `from`. */
tutti_status tti_window_gather_local(struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t to,
                                     const void *rail, void *all, tutti_error *error);
tutti_status tti_window_scatter_local(struct tti_hier_call *c, const struct tti_windows *w, size_t k, int32_t from,
                                      const void *all, void *rail, tutti_error *error);

#endif
