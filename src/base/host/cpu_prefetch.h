/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of cache lines that are used soon. GCC takes a function that only requests lines for one without effect, and
 * drops its calls. The statement without instructions keeps them.
 */
#ifndef TTI_BASE_HOST_CPU_PREFETCH_H
#define TTI_BASE_HOST_CPU_PREFETCH_H

static inline void tti_prefetch_to_read(const void *line)
{
    __builtin_prefetch(line);
    __asm__ volatile("");
}

static inline void tti_prefetch_to_write(const void *line)
{
    __builtin_prefetch(line, 1);
    __asm__ volatile("");
}

#endif
