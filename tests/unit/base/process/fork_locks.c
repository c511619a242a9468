/* SPDX-License-Identifier: BSD-3-Clause */
/* A fork while other threads hold the mutexes that it waits for. */
#include "base/process/fork.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4

static void lock_once(struct tti_fork_mutex *m)
{
    tti_fork_mutex_lock(m);
    tti_fork_mutex_unlock(m);
}

/* The child finds both free. */
static void fork_now(struct tti_fork_mutex *m, struct tti_fork_mutex *n)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        _exit(pthread_mutex_trylock(&m->mutex) == 0 && pthread_mutex_trylock(&n->mutex) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- a thread that holds one of them locks another one ----------------------------------------------------------- */

struct nest {
    struct tti_fork_mutex outer;
    struct tti_fork_mutex inner;
    pthread_barrier_t step;
};

static void *lock_both(void *argument)
{
    struct nest *n = argument;
    const struct timespec meanwhile = {.tv_nsec = 300000000}; /* the fork begins, and waits for `outer` */
    tti_fork_mutex_lock(&n->outer);
    pthread_barrier_wait(&n->step);
    nanosleep(&meanwhile, NULL);
    lock_once(&n->inner);
    tti_fork_mutex_unlock(&n->outer);
    pthread_barrier_wait(&n->step); /* in the child, ThreadSanitizer would miss the join of a thread that has ended */
    return NULL;
}

static void fork_beside(struct nest *n)
{
    pthread_t thread;
    pthread_barrier_init(&n->step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, lock_both, n), 0);
    pthread_barrier_wait(&n->step);
    fork_now(&n->outer, &n->inner);
    pthread_barrier_wait(&n->step);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&n->step);
}

/* In whatever order the fork knows them, and if it does not know the inner one before it begins. */
static void nested_locks(void **state)
{
    static struct nest nests[3] = {{.outer = TTI_FORK_MUTEX_INIT, .inner = TTI_FORK_MUTEX_INIT},
                                   {.outer = TTI_FORK_MUTEX_INIT, .inner = TTI_FORK_MUTEX_INIT},
                                   {.outer = TTI_FORK_MUTEX_INIT, .inner = TTI_FORK_MUTEX_INIT}};
    (void)state;
    lock_once(&nests[0].outer);
    lock_once(&nests[0].inner);
    lock_once(&nests[1].inner);
    lock_once(&nests[1].outer);
    for (int i = 0; i < 3; i++) {
        fork_beside(&nests[i]);
    }
}

/* ---- several threads are the first to lock it -------------------------------------------------------------------- */

struct counter {
    struct tti_fork_mutex lock;
    int count;
    pthread_barrier_t ready;
};

static void *count(void *argument)
{
    struct counter *c = argument;
    pthread_barrier_wait(&c->ready);
    tti_fork_mutex_lock(&c->lock);
    c->count++;
    tti_fork_mutex_unlock(&c->lock);
    return NULL;
}

/* They lock the same, and the fork knows it once: else it would wait for itself. */
static void first_locks_at_once(void **state)
{
    static struct counter c = {.lock = TTI_FORK_MUTEX_INIT};
    static struct tti_fork_mutex other = TTI_FORK_MUTEX_INIT;
    pthread_t threads[THREADS];
    (void)state;
    pthread_barrier_init(&c.ready, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, &c), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&c.ready);
    assert_int_equal(c.count, THREADS);
    fork_now(&c.lock, &other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nested_locks), cmocka_unit_test(first_locks_at_once)};
    alarm(60); /* a fork that waits for ever fails the test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
