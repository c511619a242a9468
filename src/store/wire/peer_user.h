/* SPDX-License-Identifier: BSD-3-Clause */
/* Which user runs the process at the other end of a unix connection. */
#ifndef TTI_STORE_WIRE_PEER_USER_H
#define TTI_STORE_WIRE_PEER_USER_H

#include <stdbool.h>

/* Whether a process of this user made the other end, and its pid (0: in another namespace; `pid` may be NULL). */
bool tti_peer_is_same_user(int fd, int *pid);

/*
 * Whether that check is worth anything. In a user namespace the kernel shows every user that is not mapped there as the
 * same number (/proc/sys/kernel/overflowuid, "nobody"). A process that has that number itself cannot distinguish its
 * own user from the others.
 */
bool tti_user_is_distinct(void);

#endif
