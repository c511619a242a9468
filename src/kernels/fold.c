/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way into the kernels: which instruction set, and under which floating-point environment.
 *
 * The set is found at the first call and kept. A table of pointers does what target_clones and ifunc would do, but also
 * under thread sanitizer, with musl and in a static program.
 *
 * A caller may have asked its CPU to flush subnormals, to round elsewhere than to nearest, or to trap. Ranks that
 * differ in that would get different numbers, so folds of floats run under the default environment, and the caller's is
 * restored. Of these steps only reading the register is dear (on x86 5 ns, as much as a small fold), so it is read once.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/isa/table.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

/* NULL until the first call. Relaxed: the tables are constant, and threads that race here store the same pointer. */
static _Atomic(const struct tti_fold_table *) chosen;

#if defined(__x86_64__)

/* The bits of CPUID that __builtin_cpu_supports does not name in every compiler. */
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

/* What -march=x86-64-v3 and -v4 let the compiler use. __builtin_cpu_supports also asks the OS to save the registers. */
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

/* The best set of this CPU that is not above the wanted one; NULL or an unknown name wants the best. */
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

/* Round to nearest, nothing flushed, every exception masked, no flag raised. */
#define DEFAULT_ENVIRONMENT 0x1f80u

typedef unsigned environment;

static inline environment environment_enter(void)
{
    const environment before = _mm_getcsr();
    const unsigned control = before & ~0x3fu; /* the bits that are not flags */
    if (__builtin_expect(control != DEFAULT_ENVIRONMENT, 0)) {
        _mm_setcsr(DEFAULT_ENVIRONMENT);
    }
    return before;
}

/* Also takes back the exception flags that a fold has raised. Writing without asking is cheaper than asking. */
static inline void environment_leave(environment before)
{
    _mm_setcsr(before);
}

#elif defined(__aarch64__)

static const struct tti_fold_table *choose(const char *wanted)
{
    (void)wanted;
    return &tti_fold_table_base;
}

typedef uint64_t environment;

static inline void environment_write(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

/* The default is 0: to nearest, nothing flushed, no traps. Flags are in another register. */
static inline environment environment_enter(void)
{
    environment before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    if (__builtin_expect(before != 0, 0)) {
        environment_write(0);
    }
    return before;
}

static inline void environment_leave(environment before)
{
    if (__builtin_expect(before != 0, 0)) {
        environment_write(before);
    }
}

#else
#error "Tutti's kernels know x86-64 and aarch64."
#endif

static inline const struct tti_fold_table *table(void)
{
    const struct tti_fold_table *found = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (__builtin_expect(!found, 0)) {
        found = choose(getenv("TUTTI_ISA"));
        atomic_store_explicit(&chosen, found, memory_order_relaxed);
    }
    return found;
}

const char *tti_kernels_isa(void)
{
    return table()->isa;
}

static inline int is_float(tutti_dtype dtype)
{
    return dtype <= TUTTI_F8_E5M2;
}

void tti_fold(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold)
{
    if (count == 0) {
        return;
    }
    tti_fold_function *const function = table()->ops[fold->dtype][fold->op];
    if (!is_float(fold->dtype)) {
        function(dst, src, n, count, fold->scales);
        return;
    }
    const environment before = environment_enter();
    function(dst, src, n, count, fold->scales);
    environment_leave(before);
}

/*
 * Folds that go by tiles small enough to stay in the first-level cache between the fold and what is done with the result.
 * Each tile needs the addresses of its part of the sources; more sources than there is room for are folded at once. The
 * smaller tile lets the processor load the next one while the one before is still on its way to memory.
 */
enum { PUSH_TILE = 4096, STREAM_TILE = 1024, SOURCES = 256 };

static void fold_tile(void *dst, const void *const *src, size_t n, size_t from, size_t bytes,
                      const struct tti_fold *fold)
{
    const void *part[SOURCES];
    for (size_t k = 0; k < n; k++) {
        part[k] = (const char *)src[k] + from;
    }
    table()->ops[fold->dtype][fold->op](dst, part, n, bytes / tutti_dtype_size(fold->dtype), fold->scales);
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
    const environment before = environment_enter();
    for (size_t done = 0; done < bytes; done += PUSH_TILE) {
        const size_t part = bytes - done < PUSH_TILE ? bytes - done : PUSH_TILE;
        fold_tile((char *)dst[0] + done, src, n, done, part, fold);
        for (size_t k = 1; k < outputs; k++) {
            tti_copy_cached((char *)dst[k] + done, (char *)dst[0] + done, part);
        }
    }
    environment_leave(before);
}

/* Orders the stores past the caches before what the caller publishes next. */
static inline void stream_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* Bytes before the first line boundary. */
static size_t ragged_head(const void *dst)
{
    return (TTI_LINE - (uintptr_t)dst % TTI_LINE) % TTI_LINE;
}

void tti_fold_stream(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold)
{
    const size_t element = tutti_dtype_size(fold->dtype);
    const size_t bytes = count * element;
    const size_t head = ragged_head(dst);
    if (!table()->stream || n > SOURCES || bytes < STREAM_TILE || head % element != 0) {
        tti_fold(dst, src, n, count, fold);
        return;
    }
    _Alignas(TTI_LINE) char tile[STREAM_TILE];
    const environment before = environment_enter();
    if (head > 0) {
        fold_tile(dst, src, n, 0, head, fold);
    }
    size_t done = head;
    while (bytes - done >= TTI_LINE) {
        const size_t lines = (bytes - done < STREAM_TILE ? bytes - done : STREAM_TILE) / TTI_LINE;
        fold_tile(tile, src, n, done, lines * TTI_LINE, fold);
        table()->stream((char *)dst + done, tile, lines);
        done += lines * TTI_LINE;
    }
    if (done < bytes) {
        fold_tile((char *)dst + done, src, n, done, bytes - done, fold);
    }
    stream_fence();
    environment_leave(before);
}

void tti_copy_stream(void *dst, const void *src, size_t n)
{
    const size_t head = ragged_head(dst);
    if (!table()->stream || n < head + TTI_LINE) {
        memcpy(dst, src, n);
        return;
    }
    const size_t lines = (n - head) / TTI_LINE;
    const size_t tail = head + lines * TTI_LINE;
    memcpy(dst, src, head);
    table()->stream((char *)dst + head, (const char *)src + head, lines);
    memcpy((char *)dst + tail, (const char *)src + tail, n - tail);
    stream_fence();
}
