/* SPDX-License-Identifier: BSD-3-Clause */
/* Yielding the CPU to the thread that is awaited, as long as that is cheap: see yielding.c. */
#ifndef TTI_BASE_WAIT_YIELDING_H
#define TTI_BASE_WAIT_YIELDING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a wait that begins to yield now should do so. False: it should sleep at once. */
bool tti_yield_pays(void);

/* The yields of one wait; .now_ns: the time at its beginning. */
struct tti_yields {
    int64_t now_ns; /* after the last yield */
    unsigned count;
    long changes; /* of thread on this CPU, that this thread has seen until the last count */
    bool vain;
};

/* Yields. False: the wait should sleep, since other threads compute on this CPU. */
bool tti_yield(struct tti_yields *y);

/* Whether further yields of this wait would be in vain. A thread that may have to wait for another one of this CPU
 * should sleep then. */
bool tti_yields_are_vain(const struct tti_yields *y);

#endif
