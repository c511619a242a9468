/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pidfds of processes in other PID namespaces: each such process has opened its own pidfd and handed it over. A pidfd
 * reports in every namespace whether its process has ended. It is kept as long as a group has that process among its
 * ranks.
 */
#ifndef TTI_BASE_PROCESS_PIDFDS_H
#define TTI_BASE_PROCESS_PIDFDS_H

#include <stdbool.h>
#include <stdint.h>

/* Takes over `fd`, the pidfd of that instance (proc.h); -1: adds a user if a pidfd is registered already. False: none
 * is, or there is no memory; then `fd` is closed. */
bool tti_pidfd_register(uint64_t instance, int fd);

/* Once for each tti_pidfd_register that was true. */
void tti_pidfd_release(uint64_t instance);

/* Another descriptor of it, which the caller closes; -1 if there is none. */
int tti_pidfd_of(uint64_t instance);

/* Whether it is known that the process has ended. */
bool tti_pidfd_has_ended(uint64_t instance);

#endif
