/* SPDX-License-Identifier: BSD-3-Clause */
/* Yielding the CPU to the thread that is awaited, as long as that is cheap: see yielding.c. */
#ifndef TTI_BASE_WAIT_YIELDING_H
#define TTI_BASE_WAIT_YIELDING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a wait that begins to yield now should do so. False: it should sleep at once. */
bool tti_yield_pays(void);

/* Yields. *now_ns: the time before, then the time after. False: the wait should sleep, since other threads compute on
 * this CPU. */
bool tti_yield(int64_t *now_ns);

#endif
