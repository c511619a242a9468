/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops over arrays that fold several sources into one. Each loop is written once and compiled for each instruction
 * set. The best set of this CPU is chosen at the first call. */
#ifndef TTI_KERNELS_KERNELS_H
#define TTI_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/collectives.h>

struct tti_fold {
    tutti_dtype dtype;
    tutti_reduce_op op;   /* valid for the dtype (tutti_reduce_op_valid) */
    const double *scales; /* PREMUL_SUM: one factor per source; else NULL */
};

/*
 * dst[i] = round(src[0][i] op src[1][i] op ... op src[n-1][i]) as a left fold, for i < count. n >= 1. AVG divides by n.
 * Sources and dst need element alignment only; dst may be one or several of the sources, but may not overlap them
 * partly. The result has the same bits with every instruction set, also for one source (NaNs become canonical, scales
 * apply). Computes under the default MXCSR/FPCR, and restores the caller's.
 */
void tti_fold(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold);

/* The same, into `outputs` >= 1 destinations in one pass. Each may be one or several of the sources, but no two
 * destinations the same memory. */
void tti_fold_push(void *const *dst, size_t outputs, const void *const *src, size_t n, size_t count,
                   const struct tti_fold *fold);

/* tti_fold and memcpy by stores past the caches, if the processor has them: for outputs larger than the caches. dst may
 * not overlap a source. Later stores of the caller become visible after the data. */
void tti_fold_stream(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold);
void tti_copy_stream(void *dst, const void *src, size_t n);

/* memcpy for chunks of tensors, without the slow case that copy.c describes. */
void tti_copy_cached(void *dst, const void *src, size_t n);

/* The instruction set in use: "base", "avx2", "avx512" (on aarch64 "base" is NEON). TUTTI_ISA in the environment (read
 * once) selects a lower one, for tests. */
const char *tti_kernels_isa(void);

#endif
