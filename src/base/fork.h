/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks that must not be held by another thread at the moment of a fork: the child would wait for it for ever. */
#ifndef TTI_BASE_FORK_H
#define TTI_BASE_FORK_H

#include <pthread.h>

/* From now on fork() waits for the mutex, and the child finds it free. Call once per mutex, from a pthread_once; such a
 * lock is held for moments only and never together with another of them. At most 32. */
void tti_fork_protect(pthread_mutex_t *mutex);

#endif
