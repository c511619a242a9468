/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which threads are joining a world or a group that grows. They use no group yet by which tutti_finalize could find
 * them.
 */
#ifndef TTI_API_GROUP_JOINING_H
#define TTI_API_GROUP_JOINING_H

#include <stdbool.h>
#include <tutti/status.h>

/* Around a join. The beginning waits while another thread is in tutti_finalize. False: BUSY, since this thread is
 * inside a callback, for which that one may wait. */
bool tti_joining_begin(const char *function, tutti_error *error);
void tti_joining_end(void);

/* Around tutti_finalize. False: a thread is joining, or another one is in tutti_finalize. */
bool tti_joining_exclude(void);
void tti_joining_allow(void);

#endif
