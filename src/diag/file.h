/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of the flight recorder's memory. */
#ifndef TTI_DIAG_FILE_H
#define TTI_DIAG_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Makes a file in a folder (`name` is its path) or, with NULL, a memory file, with the head of a process that has not
 * begun. Returns the descriptor, close-on-exec, or -1 with errno. */
int tti_flight_make(const char *name, const char *job, int32_t rank, int32_t world_size);

/* Whether this is such a file, by its size and its head. */
bool tti_flight_is(int fd);

#endif
