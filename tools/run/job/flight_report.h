/* SPDX-License-Identifier: BSD-3-Clause */
/* What the launcher reports of the ranks' operations. */
#ifndef TOOLS_RUN_JOB_FLIGHT_REPORT_H
#define TOOLS_RUN_JOB_FLIGHT_REPORT_H

#include <tutti/status.h>

#include "run/job/job.h"

/* Makes the memory of a rank's flight recorder, before the rank is started. False with errno: --trace cannot be
 * done. */
bool tti_report_prepare(struct tti_job *job, int local);
void tti_report_close(struct tti_job *job);

/* The hang report, of the ranks of this node. Reads each record twice, TTI_RECORD_INTERVAL_MS apart. */
void tti_report_hang(struct tti_job *job);

/* Writes the file of --metrics, if there is one. */
void tti_report_metrics(struct tti_job *job);

/* How the last operation of a rank has ended; OK: it has not, or there is none. */
tutti_status tti_report_last_status(const struct tti_job *job, int local);

/* The last operation of a rank in words; false: it has made none. */
bool tti_report_last_operation(const struct tti_job *job, int local, char *text, size_t capacity);

#endif
