/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of the mutexes that a fork waits for. A mutex comes into it before its first lock. The fork holds the list,
 * so a mutex that it has not found there is free until the child exists. */
#include "base/process/fork.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tti_fork_mutex *list;

/* Unlocks the mutexes before `end`, and the list. */
static void unlock_until(const struct tti_fork_mutex *end)
{
    for (struct tti_fork_mutex *m = list; m != end; m = m->next) {
        pthread_mutex_unlock(&m->mutex);
    }
    pthread_mutex_unlock(&list_lock);
}

/* Locks the list and all mutexes, or nothing: then it returns a mutex that another thread holds. */
static struct tti_fork_mutex *lock_all(void)
{
    pthread_mutex_lock(&list_lock);
    for (struct tti_fork_mutex *m = list; m; m = m->next) {
        if (pthread_mutex_trylock(&m->mutex) != 0) {
            unlock_until(m);
            return m;
        }
    }
    return NULL;
}

/* The thread that holds one of the mutexes may wait for another one, or for the list. So the fork holds none of these
 * while it waits. */
static void before_fork(void)
{
    for (struct tti_fork_mutex *held = lock_all(); held; held = lock_all()) {
        pthread_mutex_lock(&held->mutex);
        pthread_mutex_unlock(&held->mutex);
    }
}

static void after_fork(void)
{
    unlock_until(NULL);
}

static void watch(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void add(struct tti_fork_mutex *m)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    pthread_mutex_lock(&list_lock);
    /* Two threads may be the first at once. relaxed: it changes under the lock only */
    if (!atomic_load_explicit(&m->is_listed, memory_order_relaxed)) {
        m->next = list;
        list = m;
        /* release: pairs with the acquire in tti_fork_mutex_lock; the mutex is in the list */
        atomic_store_explicit(&m->is_listed, true, memory_order_release);
    }
    pthread_mutex_unlock(&list_lock);
}

void tti_fork_mutex_lock(struct tti_fork_mutex *m)
{
    /* acquire: pairs with the release in add */
    if (!atomic_load_explicit(&m->is_listed, memory_order_acquire)) {
        add(m);
    }
    pthread_mutex_lock(&m->mutex);
}
