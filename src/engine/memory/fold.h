/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of lane->sources, one for each rank, in rank order and by the call's operation. They count bytes like
 * copy.h. */
#ifndef TTI_ENGINE_MEMORY_FOLD_H
#define TTI_ENGINE_MEMORY_FOLD_H

#include "engine/lane.h"

static inline struct tti_fold tti_fold_of(const struct tti_lane *lane)
{
    const tutti_op *op = lane->op;
    return (struct tti_fold){
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
}

/* `bytes` of each source into dst. */
static inline void tti_reduce(struct tti_lane *lane, void *dst, size_t bytes)
{
    const struct tti_fold fold = tti_fold_of(lane);
    tti_fold(dst, lane->sources, (size_t)lane->engine->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->bytes_copied += ((size_t)lane->engine->size + 1) * bytes;
}

/* The same into the first `outputs` of lane->targets. */
static inline void tti_reduce_push(struct tti_lane *lane, size_t outputs, size_t bytes)
{
    const struct tti_fold fold = tti_fold_of(lane);
    const size_t size = (size_t)lane->engine->size;
    tti_fold_push(lane->targets, outputs, lane->sources, size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->bytes_copied += (size + outputs) * bytes;
}

/* The same into a tensor of the caller that is none of the sources: past the caches if the results of this call leave
 * them (caches.c). */
static inline void tti_reduce_out(struct tti_lane *lane, void *dst, size_t bytes)
{
    if (!lane->streams || bytes < TTI_PAGE) {
        tti_reduce(lane, dst, bytes);
        return;
    }
    const struct tti_fold fold = tti_fold_of(lane);
    tti_fold_stream(dst, lane->sources, (size_t)lane->engine->size, bytes >> tti_dtype_shift(fold.dtype), &fold);
    lane->bytes_copied += ((size_t)lane->engine->size + 1) * bytes;
}

#endif
