/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting the library's own threads. */
#ifndef TTI_BASE_PROCESS_THREAD_H
#define TTI_BASE_PROCESS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* pthread_create, but the thread blocks all signals: the application's threads handle them. `attributes` may be
 * NULL. */
static inline int tti_thread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *argument),
                                    void *argument)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

#endif
