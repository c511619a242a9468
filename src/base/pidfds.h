/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of processes whose numbers mean nothing here: each such process has opened its own and handed it over. A pidfd
 * says in every namespace whether its process has ended. Kept for as long as a group has that process among its ranks.
 */
#ifndef TTI_BASE_PIDFDS_H
#define TTI_BASE_PIDFDS_H

#include <stdbool.h>
#include <stdint.h>

/* Takes `fd` over for the process of that instance (proc.h); -1: only counts one more user, if it is known. False: it is not, or
 * there is no memory; then `fd` is closed. */
bool tti_pidfd_register(uint64_t instance, int fd);

/* Once for each time that keep was true. */
void tti_pidfd_release(uint64_t instance);

/* Another descriptor of it, which the caller closes; -1 if there is none. */
int tti_pidfd_of(uint64_t instance);

/* Whether it is known that the process has ended. */
bool tti_pidfd_has_ended(uint64_t instance);

#endif
