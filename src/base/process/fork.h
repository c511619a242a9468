/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes that no other thread may hold during a fork: the child would wait for that thread for ever. */
#ifndef TTI_BASE_PROCESS_FORK_H
#define TTI_BASE_PROCESS_FORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* fork() waits for the mutex, and the child finds it free. It is static, and held briefly. A thread that holds it may
 * lock another one of them. */
struct tti_fork_mutex {
    pthread_mutex_t mutex;
    struct tti_fork_mutex *next; /* in the list of those that a fork waits for; constant once it is there */
    _Atomic bool is_listed;
};

#define TTI_FORK_MUTEX_INIT                                                                                            \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                                             \
    }

void tti_fork_mutex_lock(struct tti_fork_mutex *m);

static inline void tti_fork_mutex_unlock(struct tti_fork_mutex *m)
{
    pthread_mutex_unlock(&m->mutex);
}

#endif
