/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of the instruction set, at the first call. dispatch.h has the floating-point environment.
 *
 * A table of pointers does the work of target_clones and ifunc, and also works with thread sanitizer, with musl and in
 * a static program.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

_Atomic(const struct tti_fold_table *) tti_fold_chosen;

#if defined(__x86_64__)

/* Bits of CPUID for which some compilers have no name in __builtin_cpu_supports. */
static int cpu_has_f16c_movbe_lzcnt(void)
{
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    const unsigned wanted = bit_F16C | bit_MOVBE;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & wanted) != wanted) {
        return 0;
    }
    return __get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx) && (ecx & bit_LZCNT);
}

/* The features of -march=x86-64-v3 and -v4. __builtin_cpu_supports also checks that the OS saves the registers. */
static int cpu_has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && cpu_has_f16c_movbe_lzcnt();
}

static int cpu_has_v4(void)
{
    return cpu_has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* The best set of this CPU up to the wanted one; for NULL or an unknown name, the best. */
static const struct tti_fold_table *choose(const char *wanted)
{
    __builtin_cpu_init();
    if (wanted && strcmp(wanted, "base") == 0) {
        return &tti_fold_table_base;
    }
    if (cpu_has_v4() && !(wanted && strcmp(wanted, "avx2") == 0)) {
        return &tti_fold_table_avx512;
    }
    return cpu_has_v3() ? &tti_fold_table_avx2 : &tti_fold_table_base;
}

#elif defined(__aarch64__)

static const struct tti_fold_table *choose(const char *wanted)
{
    (void)wanted;
    return &tti_fold_table_base;
}

#else
#error "Tutti's kernels know x86-64 and aarch64."
#endif

const struct tti_fold_table *tti_fold_choose(void)
{
    const struct tti_fold_table *found = choose(getenv("TUTTI_ISA"));
    atomic_store_explicit(&tti_fold_chosen, found, memory_order_relaxed);
    return found;
}

const char *tti_kernels_isa(void)
{
    return tti_fold_table()->isa;
}

void tti_fold(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold)
{
    tti_fold_inline(dst, src, n, count, fold);
}

/*
 * Folds by tiles, which stay in the first-level cache between the fold and the use of the result. Each tile needs the
 * addresses of its part of the sources; with more sources than fit the array there is only one tile. With the smaller
 * tile the processor loads the next tile while it writes the one before.
 */
enum { PUSH_TILE = 4096, STREAM_TILE = 1024, SOURCES = 256 };

static void fold_tile(void *dst, const void *const *src, size_t n, size_t from, size_t bytes,
                      const struct tti_fold *fold)
{
    const void *part[SOURCES];
    for (size_t k = 0; k < n; k++) {
        part[k] = (const char *)src[k] + from;
    }
    tti_fold_call(tti_fold_table()->ops[fold->dtype][fold->op], fold->dtype, dst, part, n,
                  bytes / tutti_dtype_size(fold->dtype), fold->scales);
}

void tti_fold_push(void *const *dst, size_t outputs, const void *const *src, size_t n, size_t count,
                   const struct tti_fold *fold)
{
    const size_t bytes = count * tutti_dtype_size(fold->dtype);
    if (outputs == 1 || n > SOURCES || bytes <= PUSH_TILE) {
        tti_fold(dst[0], src, n, count, fold);
        for (size_t k = 1; k < outputs; k++) {
            tti_copy_cached(dst[k], dst[0], bytes);
        }
        return;
    }
    const tti_environment before = tti_environment_enter();
    for (size_t done = 0; done < bytes; done += PUSH_TILE) {
        const size_t part = bytes - done < PUSH_TILE ? bytes - done : PUSH_TILE;
        fold_tile((char *)dst[0] + done, src, n, done, part, fold);
        for (size_t k = 1; k < outputs; k++) {
            tti_copy_cached((char *)dst[k] + done, (char *)dst[0] + done, part);
        }
    }
    tti_environment_leave(before);
}

/* Orders stores past the caches before later stores of the caller. */
static inline void stream_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* Bytes before the first line boundary. */
static size_t ragged_head(const void *dst)
{
    return (TTI_STREAM_LINE - (uintptr_t)dst % TTI_STREAM_LINE) % TTI_STREAM_LINE;
}

void tti_fold_stream(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold)
{
    const size_t element = tutti_dtype_size(fold->dtype);
    const size_t bytes = count * element;
    const size_t head = ragged_head(dst);
    if (!tti_fold_table()->stream || n > SOURCES || bytes < STREAM_TILE || head % element != 0) {
        tti_fold(dst, src, n, count, fold);
        return;
    }
    _Alignas(TTI_STREAM_LINE) char tile[STREAM_TILE];
    const tti_environment before = tti_environment_enter();
    if (head > 0) {
        fold_tile(dst, src, n, 0, head, fold);
    }
    size_t done = head;
    while (bytes - done >= TTI_STREAM_LINE) {
        const size_t lines = (bytes - done < STREAM_TILE ? bytes - done : STREAM_TILE) / TTI_STREAM_LINE;
        fold_tile(tile, src, n, done, lines * TTI_STREAM_LINE, fold);
        tti_fold_table()->stream((char *)dst + done, tile, lines);
        done += lines * TTI_STREAM_LINE;
    }
    if (done < bytes) {
        fold_tile((char *)dst + done, src, n, done, bytes - done, fold);
    }
    stream_fence();
    tti_environment_leave(before);
}

void tti_copy_stream(void *dst, const void *src, size_t n)
{
    const size_t head = ragged_head(dst);
    if (!tti_fold_table()->stream || n < head + TTI_STREAM_LINE) {
        tti_copy_cached(dst, src, n);
        return;
    }
    const size_t lines = (n - head) / TTI_STREAM_LINE;
    const size_t tail = head + lines * TTI_STREAM_LINE;
    memcpy(dst, src, head);
    tti_fold_table()->stream((char *)dst + head, (const char *)src + head, lines);
    memcpy((char *)dst + tail, (const char *)src + tail, n - tail);
    stream_fence();
}
