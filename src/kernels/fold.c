/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way into the kernels: which instruction set, and under which floating-point environment.
 *
 * The set is found at the first call and kept. A table of pointers does what target_clones and ifunc would do, but also
 * under thread sanitizer, with musl and in a static program.
 *
 * A caller may have asked its CPU to flush subnormals, to round elsewhere than to nearest, or to trap. Ranks that
 * differ in that would get different numbers, so folds run under the default environment, and the caller's is restored:
 * reading the register costs a few cycles, and it is written only when something differs.
 */
#include <stdatomic.h>
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

static inline unsigned environment_read(void)
{
    return _mm_getcsr();
}

static inline void environment_write(unsigned value)
{
    _mm_setcsr(value);
}

/* The bits that are not flags. */
static inline unsigned environment_control(unsigned value)
{
    return value & ~0x3fu;
}

#elif defined(__aarch64__)

static const struct tti_fold_table *choose(const char *wanted)
{
    (void)wanted;
    return &tti_fold_table_base;
}

#define DEFAULT_ENVIRONMENT 0u

static inline uint64_t environment_read(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

static inline void environment_write(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

static inline uint64_t environment_control(uint64_t value)
{
    return value;
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

void tti_fold(void *dst, const void *const *src, size_t n, size_t count, const struct tti_fold *fold)
{
    if (count == 0) {
        return;
    }
    tti_fold_function *const function = table()->ops[fold->dtype][fold->op];
    const __typeof__(environment_read()) before = environment_read();
    if (__builtin_expect(environment_control(before) != DEFAULT_ENVIRONMENT, 0)) {
        environment_write(DEFAULT_ENVIRONMENT);
    }
    function(dst, src, n, count, fold->scales);
    /* Also takes back the exception flags that the fold has raised. */
    if (__builtin_expect(environment_read() != before, 0)) {
        environment_write(before);
    }
}
