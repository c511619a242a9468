/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends the program when its rank hangs. */
#ifndef TOOLS_CHECK_WATCHDOG_H
#define TOOLS_CHECK_WATCHDOG_H

#include <stdint.h>

struct tti_check_report;
struct tti_check_watchdog;

/* Starts the watchdog of a rank; NULL: there is no memory or no thread for it. */
struct tti_check_watchdog *tti_check_watchdog_start(int rank, int64_t timeout_ms);
void tti_check_watchdog_stop(struct tti_check_watchdog *w);

/* While a rank holds its watchdog, only the rank uses the report. */
void tti_check_watchdog_hold(struct tti_check_watchdog *w);
void tti_check_watchdog_release(struct tti_check_watchdog *w);

/* Held: the case that runs from now on, and the report that counts it (NULL: none). */
void tti_check_watchdog_case(struct tti_check_watchdog *w, const char *collective, const char *name,
                             struct tti_check_report *report);

/* Any thread: a rank of this process has taken a step, so it does not hang. */
void tti_check_watchdog_step(void);

#endif
