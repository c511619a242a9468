/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks that no other thread may hold during a fork: the child would wait for that thread for ever. */
#ifndef TTI_BASE_PROCESS_FORK_H
#define TTI_BASE_PROCESS_FORK_H

#include <pthread.h>

/* From now on fork() waits for the mutex, and the child finds it free. Call once per mutex, from a pthread_once. Such a
 * lock is held briefly. A thread that holds it may lock another one of them. At most 32. */
void tti_fork_protect(pthread_mutex_t *mutex);

#endif
