/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock of which joining threads are the readers and tutti_finalize is the writer. The writer never waits for readers,
 * but while it has the lock it waits for callbacks. So a thread inside a callback does not wait for the writer.
 */
#include "api/group/joining.h"

#include <pthread.h>

#include "base/error.h"
#include "core/call/call.h"

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

bool tti_joining_begin(const char *function, tutti_error *error)
{
    prepare();
    if ((tti_in_any_callback() ? pthread_rwlock_tryrdlock(&joining) : pthread_rwlock_rdlock(&joining)) == 0) {
        return true;
    }
    tti_error_set(error, TUTTI_BUSY, "%s: in a callback, while another thread is in tutti_finalize, which waits for it",
                  function);
    return false;
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
