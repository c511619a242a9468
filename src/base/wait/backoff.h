/* SPDX-License-Identifier: BSD-3-Clause */
/* A pause between two polls of a word. It lets the other hardware thread of the core run. */
#ifndef TTI_BASE_WAIT_BACKOFF_H
#define TTI_BASE_WAIT_BACKOFF_H

#include <stdatomic.h>

static inline void tti_backoff(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

#endif
