/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/shape.h - what an operation gives: the shape of its output, and a new tensor to put it into.
 *
 *     int64_t shape[TUTTI_MAX_NDIM];
 *     int32_t ndim;
 *     DLManagedTensorVersioned *all;
 *     tutti_all_gather_shape(g, &part, -1, shape, &ndim, NULL);
 *     tutti_tensor_empty(g, TUTTI_F32, ndim, shape, &all, NULL);
 *     tutti_all_gather(g, &part, &all->dl_tensor, -1, NULL);
 *     all->deleter(all);
 *
 * Common to all of them:
 *  - Local: nothing is sent, and callbacks may call them. What is refused here, the operation would refuse, too.
 *  - Of the input only dtype and shape count; its data and strides are not looked at.
 *  - `shape` gets one length for each dimension, *ndim their number: the input's, or 1 for an input without dimensions,
 *    which counts as [1]. Room for TUTTI_MAX_NDIM lengths always suffices. `ndim` NULL = not wanted.
 *  - On error `shape` and *ndim stay as they are. `error` may be NULL.
 *  - Errors of all of them: INVALID_ARGUMENT (also if the output's bytes do not fit into 63 bits), BAD_STATE (stale group),
 *    FORKED.
 */
#ifndef TUTTI_SHAPE_H
#define TUTTI_SHAPE_H

#include <tutti/group.h>
#include <tutti/tensor.h>

TUTTI_BEGIN_DECLS

/** tutti_all_gather, and tutti_gather on the root: as many times the input along `dim` as there are ranks. */
TUTTI_API tutti_status tutti_all_gather_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                              int32_t *ndim, tutti_error *error);

/** tutti_reduce_scatter, and tutti_scatter of the root's input: one part of the input along `dim`. INVALID_ARGUMENT if the
 *  ranks cannot share it equally. */
TUTTI_API tutti_status tutti_reduce_scatter_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                  int64_t *shape, int32_t *ndim, tutti_error *error);

/** tutti_all_to_all: the input's own shape, after the same checks as above. */
TUTTI_API tutti_status tutti_all_to_all_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                              int32_t *ndim, tutti_error *error);

/** tutti_all_gather_v without displacements: the sum of counts along `dim`. The input has counts[rank] rows. */
TUTTI_API tutti_status tutti_all_gather_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                const int64_t *counts, int64_t *shape, int32_t *ndim,
                                                tutti_error *error);

/** tutti_reduce_scatter_v: counts[rank] rows along `dim`. The input has as many rows as all counts together. */
TUTTI_API tutti_status tutti_reduce_scatter_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                    const int64_t *counts, int64_t *shape, int32_t *ndim,
                                                    tutti_error *error);

/** tutti_all_to_all_v without displacements: the sum of recv_counts along `dim`. */
TUTTI_API tutti_status tutti_all_to_all_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                const int64_t *recv_counts, int64_t *shape, int32_t *ndim,
                                                tutti_error *error);

/**
 * A new compact tensor on the group's device, with whatever its memory holds, to be given back with
 * (*tensor)->deleter(*tensor), by any thread, also after the group's end. It is what tutti_recv_alloc makes; a framework can
 * take it over by DLPack. `shape` is copied; ndim is 0 to TUTTI_MAX_NDIM. Ordinary memory: for memory that all ranks
 * reach there is tutti_alloc.
 *
 * Errors: as above; NO_MEMORY. On error *tensor stays as it is.
 */
TUTTI_API tutti_status tutti_tensor_empty(tutti_group *group, tutti_dtype dtype, int32_t ndim, const int64_t *shape,
                                          DLManagedTensorVersioned **tensor, tutti_error *error);

TUTTI_END_DECLS

#endif
