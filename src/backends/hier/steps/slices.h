/* SPDX-License-Identifier: BSD-3-Clause */
/* The chunks of a vector, and the slices of a chunk on the rails. */
#ifndef TTI_BACKENDS_HIER_STEPS_SLICES_H
#define TTI_BACKENDS_HIER_STEPS_SLICES_H

#include "backends/hier/types.h"

/* A chunk of a vector, cut into a slice for each rail; in elements. */
struct tti_slices {
    size_t from; /* of the chunk in the vector */
    size_t count;
    size_t each;  /* of a slice; the last ones may be shorter */
    size_t begin; /* of the own slice in the chunk */
    size_t own;
};

/* Cuts chunk k of a vector of `count` elements. `counts` (or NULL) gets an entry for each local rank of this host. */
void tti_slices_cut(const struct tti_hier *s, size_t count, size_t item, size_t k, struct tti_slices *slices,
                    int64_t *counts);
/* The most elements of a slice. */
size_t tti_slices_most(const struct tti_hier *s, size_t item);

size_t tti_hier_chunk_elements(const struct tti_hier *s, size_t item);
size_t tti_hier_chunk_count(size_t count, size_t chunk);

#endif
