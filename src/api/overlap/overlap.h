/* SPDX-License-Identifier: BSD-3-Clause */
/* What the patterns of tutti/overlap.h share: ending works, and errors that say which part of the whole failed. */
#ifndef TTI_API_OVERLAP_H
#define TTI_API_OVERLAP_H

#include <tutti/overlap.h>

/* Waits for the end of the work and gives its handle back. Returns how it ended, with the details in *details. The caller is
 * not in a callback of the work's group. */
tutti_status tti_overlap_end(tutti_work *work, tutti_error *details);

/* Puts "SENTENCE: " before the message, whose end is cut if there is no room. Everything else in *error stays. */
__attribute__((format(printf, 2, 3))) void tti_overlap_locate(tutti_error *error, const char *format, ...);

#endif
