/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker thread serves at least once for each notification, sees what came before it, and runs in short slices. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/sched_slice.h"
#include "core/async/worker.h"

enum { RINGS = 200 };

/* The own slice; 0 if the system does not report it. */
static uint64_t own_slice(void)
{
    struct tti_scheduling s;
    return tti_scheduling_of(&s) ? s.runtime : 0;
}

struct served {
    struct tti_worker worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int wanted; /* under the lock */
    int seen;
    uint64_t slice;
};

static void serve(struct tti_worker *worker)
{
    struct served *s = (struct served *)((char *)worker - offsetof(struct served, worker));
    pthread_mutex_lock(&s->lock);
    s->seen = s->wanted;
    s->slice = own_slice();
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void serves_each_ring(void **state)
{
    (void)state;
    struct served s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .seen = -1};
    tutti_error error;
    tti_worker_init(&s.worker, serve);
    assert_int_equal(tti_worker_start(&s.worker, &error), TUTTI_OK);
    for (int i = 1; i <= RINGS; i++) {
        pthread_mutex_lock(&s.lock);
        s.wanted = i;
        pthread_mutex_unlock(&s.lock);
        tti_worker_notify(&s.worker);
        pthread_mutex_lock(&s.lock);
        while (s.seen != i) {
            pthread_cond_wait(&s.changed, &s.lock);
        }
        pthread_mutex_unlock(&s.lock);
    }
    tti_worker_stop(&s.worker);
    assert_int_equal(s.seen, RINGS);
}

static void has_short_slices(void **state)
{
    (void)state;
    const uint64_t usual = own_slice();
    if (usual <= 100000) { /* before Linux 6.12, or the process was started with another slice */
        skip();
    }
    struct served s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    tutti_error error;
    tti_worker_init(&s.worker, serve);
    assert_int_equal(tti_worker_start(&s.worker, &error), TUTTI_OK);
    tti_worker_notify(&s.worker);
    tti_worker_stop(&s.worker); /* not before it has served */
    assert_int_equal(s.slice, 100000);
    assert_int_equal(own_slice(), usual); /* the application's own threads keep theirs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_each_ring),
        cmocka_unit_test(has_short_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
