/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inline tti_fold, for folds of a few elements, which cost as little as a call.
 *
 * The caller's floating-point environment may flush subnormals, round in another direction, or trap. Ranks with
 * different environments would get different results. So folds of floats run under the default environment, and restore
 * the caller's. Reading the register costs 5 ns on x86, as much as a small fold, so it is read once.
 */
#ifndef TTI_KERNELS_DISPATCH_H
#define TTI_KERNELS_DISPATCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/isa/table.h"

/* NULL until the first call. Relaxed: the tables are constant, and threads that race here store the same pointer. */
extern _Atomic(const struct tti_fold_table *) tti_fold_chosen;
const struct tti_fold_table *tti_fold_choose(void);

static inline const struct tti_fold_table *tti_fold_table(void)
{
    const struct tti_fold_table *found = atomic_load_explicit(&tti_fold_chosen, memory_order_relaxed);
    return __builtin_expect(found != NULL, 1) ? found : tti_fold_choose();
}

#if defined(__x86_64__)

#include <xmmintrin.h>

/* Round to nearest, nothing flushed, every exception masked, no flag raised. */
#define TTI_DEFAULT_ENVIRONMENT 0x1f80u

typedef unsigned tti_environment;

static inline tti_environment tti_environment_enter(void)
{
    const tti_environment before = _mm_getcsr();
    const unsigned control = before & ~0x3fu; /* the bits that are not flags */
    if (__builtin_expect(control != TTI_DEFAULT_ENVIRONMENT, 0)) {
        _mm_setcsr(TTI_DEFAULT_ENVIRONMENT);
    }
    return before;
}

/* Also clears the exception flags of the fold. An unconditional write is cheaper than a comparison. */
static inline void tti_environment_leave(tti_environment before)
{
    _mm_setcsr(before);
}

#elif defined(__aarch64__)

typedef uint64_t tti_environment;

static inline void tti_environment_write(uint64_t value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory");
}

/* The default is 0: to nearest, no flush, no traps. The flags are in another register. */
static inline tti_environment tti_environment_enter(void)
{
    tti_environment before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    if (__builtin_expect(before != 0, 0)) {
        tti_environment_write(0);
    }
    return before;
}

static inline void tti_environment_leave(tti_environment before)
{
    if (__builtin_expect(before != 0, 0)) {
        tti_environment_write(before);
    }
}

#else
#error "Tutti's kernels know x86-64 and aarch64."
#endif

/*
 * Calls the table's function for this dtype; the caller has entered the environment. For ThreadSanitizer GCC makes a
 * call of each access to an element. So folds are compiled without it, and here it is told of the whole arrays.
 */
static inline void tti_fold_call(tti_fold_function *function, tutti_dtype dtype, void *dst, const void *const *src,
                                 size_t n, size_t count, const double *scales)
{
#if defined(__SANITIZE_THREAD__)
    const size_t bytes = count * tutti_dtype_size(dtype);
    for (size_t k = 0; k < n; k++) {
        __tsan_read_range((void *)(uintptr_t)src[k], bytes);
    }
    __tsan_write_range(dst, bytes);
#else
    (void)dtype;
#endif
    function(dst, src, n, count, scales);
}

/* The same in any environment. */
static inline void tti_fold_by(tti_fold_function *function, tutti_dtype dtype, void *dst, const void *const *src,
                               size_t n, size_t count, const double *scales)
{
    if (dtype > TUTTI_F8_E5M2) { /* an integer or bool */
        tti_fold_call(function, dtype, dst, src, n, count, scales);
        return;
    }
    const tti_environment before = tti_environment_enter();
    tti_fold_call(function, dtype, dst, src, n, count, scales);
    tti_environment_leave(before);
}

static inline void tti_fold_inline(void *dst, const void *const *src, size_t n, size_t count,
                                   const struct tti_fold *fold)
{
    if (count > 0) {
        tti_fold_by(tti_fold_table()->ops[fold->dtype][fold->op], fold->dtype, dst, src, n, count, fold->scales);
    }
}

#endif
