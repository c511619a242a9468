/* SPDX-License-Identifier: BSD-3-Clause */
/* Pure loops over arrays: folds of several sources into one. They know nothing of ranks. One source per loop, compiled
 * once per instruction set; the table of the best one this CPU has is chosen at the first call. */
#ifndef TTI_KERNELS_H
#define TTI_KERNELS_H

#include <stddef.h>
#include <tutti/collectives.h>

struct tti_fold {
    tutti_dtype dtype;
    tutti_reduce_op op;   /* valid for the dtype (tutti_reduce_op_valid) */
    const double *scales; /* PREMUL_SUM: one factor per source; else NULL */
};

/*
 * dst[i] = round(src[0][i] op src[1][i] op ... op src[n-1][i]) as a left fold, for i < count. n >= 1. AVG divides by n.
 * Sources and dst need element alignment only; dst may be exactly one or several of the sources, but may not overlap
 * them otherwise. The same bits on every instruction set, also with one source (NaNs become canonical,
 * scales are applied). Leaves MXCSR/FPCR as they were and computes under their defaults.
 */
void tti_fold(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold);

/* The same, and the result goes to every one of `outputs` >= 1 destinations in one pass. Each may be exactly one or several
 * of the sources, but no two of them the same memory. */
void tti_fold_push(void *const *dst, size_t outputs, const void *const *src, size_t n, size_t count,
                   const struct tti_fold *fold);

/* tti_fold and memcpy that write past the caches where the processor can: for outputs larger than the caches which nobody
 * reads soon. dst may be no source here and overlaps none. What other threads are told after the return, they are told
 * after the data has arrived. */
void tti_fold_stream(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold);
void tti_copy_stream(void *dst, const void *src, size_t n);

/* memcpy through the caches, for chunks of tensors: without the slow case that copy.c tells of. */
void tti_copy_cached(void *dst, const void *src, size_t n);

/* The instruction set in use: "base", "avx2", "avx512" ("base" on aarch64 is NEON). TUTTI_ISA in the environment (read
 * once) picks a lower one, for tests. */
const char *tti_kernels_isa(void);

#endif
