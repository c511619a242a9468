/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_PROCESS_DESCRIPTOR_LIMIT_H
#define TOOLS_RUN_PROCESS_DESCRIPTOR_LIMIT_H

#include <stddef.h>

#define TTI_RUN_REASON_LENGTH 300 /* room for a reason */

/* Why a system call has failed; if the launcher has too few descriptors, with the limits and what so many ranks
 * need. */
void tti_run_describe_errno(int errnum, int ranks, char *text, size_t capacity);

#endif
