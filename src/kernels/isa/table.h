/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names that the files of this folder export. Each file is compiled once for each instruction set, with
 * -DTTI_ISA=<name> and the compiler flags of that set, so each name ends with the set's: tti_fold_f32_avx2, ...
 *
 * The results have the same bits with every set: IEEE 754 or unsigned integer arithmetic defines each operation
 * exactly. A set only changes how many elements an instruction processes.
 */
#ifndef TTI_KERNELS_ISA_TABLE_H
#define TTI_KERNELS_ISA_TABLE_H

#include <stdint.h>

#include "kernels/kernels.h"

#define TTI_STREAM_LINE 64

/* One fold: of one dtype by one reduce op. count > 0, n >= 1; the FP environment is the default one. */
typedef void tti_fold_function(void *dst, const void *const *src, size_t n, size_t count, const double *scales);

/* The folds of one dtype, by reduce op; NULL where the op is not defined on the dtype. */
typedef tti_fold_function *const tti_fold_ops[TUTTI_REDUCE_OP_COUNT];

struct tti_fold_table {
    const char *isa;
    tti_fold_function *const *ops[TUTTI_DTYPE_COUNT];
    /* Copies whole lines of TTI_STREAM_LINE bytes past the caches to an aligned address; the caller orders the copy by
     * a fence. NULL if the set has no such store. */
    void (*stream)(void *dst, const void *src, size_t lines);
    void (*narrow_bf16)(uint16_t *dst, const float *src, size_t count);
    void (*widen_bf16)(float *dst, const uint16_t *src, size_t count);
    /* Blocks of TTI_FP8_BLOCK values, see wire_fp8.c. The last one may have fewer, in so many bytes less. */
    void (*pack_fp8)(void *dst, const float *src, size_t count);
    void (*unpack_fp8)(float *dst, const void *src, size_t count);
    /* SUM or AVG. dst is none of the sources. */
    void (*fold_fp8)(void *dst, const void *const *src, size_t n, size_t count, tutti_reduce_op op);
};

#define TTI_FP8_BLOCK 32

extern const struct tti_fold_table tti_fold_table_base;
#if defined(__x86_64__)
extern const struct tti_fold_table tti_fold_table_avx2;
extern const struct tti_fold_table tti_fold_table_avx512;
#endif

/* Reduce op, dtype and number of sources are constants: inlining gives one loop for each combination. Outside the
 * kernels it serves convert.h. */
#define TTI_INLINE static inline __attribute__((always_inline, unused))

#ifdef TTI_ISA

#define TTI_JOIN_EXPANDED(a, b) a##_##b
#define TTI_JOIN(a, b)          TTI_JOIN_EXPANDED(a, b)
#define TTI_ISA_NAME(name)      TTI_JOIN(name, TTI_ISA)
#define TTI_TEXT_EXPANDED(a)    #a
#define TTI_TEXT(a)             TTI_TEXT_EXPANDED(a)

/* Before a loop: no iteration reads what another one writes. Clang checks that at run time: its own pragma would warn
 * about each loop that it does not vectorise. */
#if defined(__clang__)
#define TTI_INDEPENDENT
#else
#define TTI_INDEPENDENT _Pragma("GCC ivdep")
#endif

extern tti_fold_ops TTI_ISA_NAME(tti_fold_f64);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_f32);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_f16);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_bf16);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_f8_e4m3);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_f8_e5m2);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_i8);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_i16);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_i32);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_i64);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_u8);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_u16);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_u32);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_u64);
extern tti_fold_ops TTI_ISA_NAME(tti_fold_bool);

void TTI_ISA_NAME(tti_f32_to_bf16)(uint16_t *dst, const float *src, size_t count);
void TTI_ISA_NAME(tti_bf16_to_f32)(float *dst, const uint16_t *src, size_t count);
void TTI_ISA_NAME(tti_f32_to_fp8)(void *dst, const float *src, size_t count);
void TTI_ISA_NAME(tti_fp8_to_f32)(float *dst, const void *src, size_t count);
void TTI_ISA_NAME(tti_fold_fp8)(void *dst, const void *const *src, size_t n, size_t count, tutti_reduce_op op);

#if defined(__x86_64__)
void TTI_ISA_NAME(tti_stream)(void *dst, const void *src, size_t lines);
#endif

#endif

#endif
