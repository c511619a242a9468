/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock of which joining threads are the readers and tutti_finalize is the writer. The writer never waits. */
#include "api/group/joining.h"

#include <pthread.h>

static pthread_rwlock_t joining = PTHREAD_RWLOCK_INITIALIZER;

/* The threads that held the lock are not there in the child of a fork. */
static void reset(void)
{
    pthread_rwlock_init(&joining, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, reset);
}

static void prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

void tti_joining_begin(void)
{
    prepare();
    pthread_rwlock_rdlock(&joining);
}

void tti_joining_end(void)
{
    pthread_rwlock_unlock(&joining);
}

bool tti_joining_exclude(void)
{
    prepare();
    return pthread_rwlock_trywrlock(&joining) == 0;
}

void tti_joining_allow(void)
{
    pthread_rwlock_unlock(&joining);
}
