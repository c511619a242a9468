/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/shape.h - the shape of an operation's output, and a new tensor for it.
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
 *  - Local: no communication, and valid in callbacks. Their checks are those of the operation.
 *  - Of the input only dtype and shape count, not data and strides.
 *  - `shape` gets one length for each dimension, *ndim their number: the input's, or 1 for an input without dimensions,
 *    which counts as [1]. TUTTI_MAX_NDIM lengths always suffice. `ndim` may be NULL.
 *  - After an error `shape` and *ndim are unchanged. `error` may be NULL.
 *  - Errors of all of them: INVALID_ARGUMENT (also if the output's bytes do not fit into 63 bits), BAD_STATE (stale
 *    group), FORKED.
 */
#ifndef TUTTI_SHAPE_H
#define TUTTI_SHAPE_H

#include <tutti/group.h>
#include <tutti/tensor.h>

TUTTI_BEGIN_DECLS

/** tutti_all_gather, and tutti_gather on the root: the input's length along `dim`, times the number of ranks. */
TUTTI_API tutti_status tutti_all_gather_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                              int32_t *ndim, tutti_error *error);

/**
 * tutti_reduce_scatter, and tutti_scatter of the root's input: one part of the input along `dim`. INVALID_ARGUMENT if
 * the number of ranks does not divide the length.
 */
TUTTI_API tutti_status tutti_reduce_scatter_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                  int64_t *shape, int32_t *ndim, tutti_error *error);

/** tutti_all_to_all: the input's own shape, after the same checks as above. */
TUTTI_API tutti_status tutti_all_to_all_shape(tutti_group *group, const DLTensor *input, int32_t dim, int64_t *shape,
                                              int32_t *ndim, tutti_error *error);

/** tutti_all_gather_v without displacements: the sum of counts along `dim`. The input has counts[rank] rows. */
TUTTI_API tutti_status tutti_all_gather_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                const int64_t *counts, int64_t *shape, int32_t *ndim,
                                                tutti_error *error);

/** tutti_reduce_scatter_v: counts[rank] rows along `dim`. The input has as many rows as the sum of all counts. */
TUTTI_API tutti_status tutti_reduce_scatter_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                    const int64_t *counts, int64_t *shape, int32_t *ndim,
                                                    tutti_error *error);

/** tutti_all_to_all_v without displacements: the sum of recv_counts along `dim`. */
TUTTI_API tutti_status tutti_all_to_all_v_shape(tutti_group *group, const DLTensor *input, int32_t dim,
                                                const int64_t *recv_counts, int64_t *shape, int32_t *ndim,
                                                tutti_error *error);

/**
 * A new compact tensor on the group's device, with undefined content, like those of tutti_recv_alloc. Any thread frees
 * it by (*tensor)->deleter(*tensor), also after the group's end; a framework can take it over by DLPack. `shape` is
 * copied; ndim is 0 to TUTTI_MAX_NDIM. It is ordinary memory: tutti_alloc gives memory that all ranks can reach.
 *
 * Errors: as above; NO_MEMORY. After an error *tensor is unchanged.
 */
TUTTI_API tutti_status tutti_tensor_empty(tutti_group *group, tutti_dtype dtype, int32_t ndim, const int64_t *shape,
                                          DLManagedTensorVersioned **tensor, tutti_error *error);

TUTTI_END_DECLS

#endif
