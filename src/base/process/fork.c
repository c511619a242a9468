/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process/fork.h"

#include <stdlib.h>

#define MUTEXES 32

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *mutexes[MUTEXES];
static int count;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    for (int i = 0; i < count; i++) {
        pthread_mutex_lock(mutexes[i]);
    }
}

static void after_fork(void)
{
    for (int i = count; i-- > 0;) {
        pthread_mutex_unlock(mutexes[i]);
    }
    pthread_mutex_unlock(&list_lock);
}

static void watch(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

void tti_fork_protect(pthread_mutex_t *mutex)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    pthread_mutex_lock(&list_lock);
    if (count == MUTEXES) {
        abort(); /* MUTEXES is too small: the first test that loads the library finds that */
    }
    mutexes[count++] = mutex;
    pthread_mutex_unlock(&list_lock);
}
