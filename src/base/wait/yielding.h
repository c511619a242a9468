/* SPDX-License-Identifier: BSD-3-Clause */
/* Yielding the CPU to the thread that is awaited, as long as that is cheap: see yielding.c. */
#ifndef TTI_BASE_WAIT_YIELDING_H
#define TTI_BASE_WAIT_YIELDING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a wait that begins to yield now should do so. False: it should sleep at once. */
bool tti_yield_pays(void);

/* How often this thread has given its CPU to another one, as the kernel counts; negative: it does not say. */
long tti_changes_of_thread(void);

/* The yields of one wait; .now_ns: the time at its beginning. */
struct tti_yields {
    int64_t now_ns; /* after the last yield */
    unsigned count;
    long changes; /* of thread, until the last count */
    bool vain;    /* further ones let no other thread run: where that one may be awaited, the wait should sleep */
};

/* Yields. False: the wait should sleep, since other threads compute on this CPU. */
bool tti_yield(struct tti_yields *y);

#endif
