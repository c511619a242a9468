/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU's time stamp counter: cheap enough to time a single memory access. The length of a tick has to be
 * measured. */
#ifndef TTI_BASE_HOST_CPU_TICKS_H
#define TTI_BASE_HOST_CPU_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* All earlier instructions have been executed, so the difference of two readings is the time between them. */
static inline uint64_t tti_ticks(void)
{
#if defined(__x86_64__)
    _mm_lfence();
    return __rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#endif
}

/* Earlier instructions may still run: for times much longer than a call, at the cost of a few instructions. */
static inline uint64_t tti_ticks_about(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

/* All earlier stores have also reached the cache: what follows does not wait for them. */
static inline uint64_t tti_ticks_after_stores(void)
{
#if defined(__x86_64__)
    _mm_mfence();
#else
    __asm__ volatile("dmb ish" : : : "memory");
#endif
    return tti_ticks();
}

#endif
