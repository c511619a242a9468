/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose process is at the other end of a unix connection. */
#ifndef TTI_STORE_USER_H
#define TTI_STORE_USER_H

#include <stdbool.h>

/* Whether the other end was made by a process of this one's user, and its number (0: of another namespace; NULL: no matter). */
bool tti_peer_is_same_user(int fd, int *pid);

/*
 * Whether that means anything. In a user namespace the kernel shows every user who has no number there as the same one
 * (/proc/sys/kernel/overflowuid, "nobody"). A process that is shown as that one itself cannot tell its own user from all
 * the others.
 */
bool tti_user_is_distinct(void);

#endif
