/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on a futex of this process until a time of CLOCK_MONOTONIC. */
#ifndef TTI_BASE_WAIT_FUTEX_H
#define TTI_BASE_WAIT_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Sleeps while the word is `seen`, until a FUTEX_WAKE_PRIVATE, a signal, or until_ns (TTI_NEVER: no limit). The caller
 * checks again what it waits for. */
static inline void tti_futex_sleep(const _Atomic uint32_t *word, uint32_t seen, int64_t until_ns)
{
    const struct timespec limit = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    /* with FUTEX_WAIT_BITSET the time is absolute */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns == TTI_NEVER ? NULL : &limit, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

#endif
