/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process/fork.h"

#include <stdlib.h>

#define MUTEXES 32

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *mutexes[MUTEXES];
static int count;

static void unlock(int first)
{
    while (first-- > 0) {
        pthread_mutex_unlock(mutexes[first]);
    }
    pthread_mutex_unlock(&list_lock);
}

/* Locks the list and all mutexes, or nothing: then it returns a mutex that another thread holds. */
static pthread_mutex_t *lock_all(void)
{
    pthread_mutex_lock(&list_lock);
    for (int i = 0; i < count; i++) {
        if (pthread_mutex_trylock(mutexes[i]) != 0) {
            pthread_mutex_t *const held = mutexes[i];
            unlock(i);
            return held;
        }
    }
    return NULL;
}

/* The thread that holds one of the mutexes may wait for another one. So the fork holds none while it waits. */
static void before_fork(void)
{
    for (pthread_mutex_t *held = lock_all(); held; held = lock_all()) {
        pthread_mutex_lock(held);
        pthread_mutex_unlock(held);
    }
}

static void after_fork(void)
{
    unlock(count);
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
