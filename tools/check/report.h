/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_CHECK_REPORT_H
#define TOOLS_CHECK_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set for the ranks of our own `tutti run`: "terminal" if rank 0 may draw a progress line, else "pipe". */
#define TTI_CHECK_STARTED "TUTTI_CHECK_STARTED"

enum tti_check_outcome { TTI_CHECK_PASSED = 0, TTI_CHECK_FAILED = 1, TTI_CHECK_SKIPPED = 2 };

/* One allocation; NULL without memory. */
struct tti_check_report *tti_check_report_create(size_t collectives);
void tti_check_report_add(struct tti_check_report *report, const char *collective, const char *name,
                          enum tti_check_outcome outcome, int64_t elapsed_ns);
void tti_check_report_progress(struct tti_check_report *report, const char *collective, const char *name);
/* Prints the table and the last line. True if nothing failed and something passed. */
bool tti_check_report_finish(struct tti_check_report *report, const char *note);

#endif
