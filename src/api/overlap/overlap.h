/* SPDX-License-Identifier: BSD-3-Clause */
/* Common to the patterns of tutti/overlap.h: ending works, and errors that name the part that failed. */
#ifndef TTI_API_OVERLAP_OVERLAP_H
#define TTI_API_OVERLAP_OVERLAP_H

#include <tutti/overlap.h>

/* Waits for the end of the work and releases its handle. Returns its status, with the details in *details. The caller
 * is not in a callback of the work's group. */
tutti_status tti_overlap_end(tutti_work *work, tutti_error *details);

/* Prefixes the message with "SENTENCE: ", cut at the end if too long. The other fields of *error stay. */
__attribute__((format(printf, 2, 3))) void tti_overlap_locate(tutti_error *error, const char *format, ...);

#endif
