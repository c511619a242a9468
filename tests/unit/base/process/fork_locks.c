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

/* The child finds both free. */
static void fork_now(pthread_mutex_t *m, pthread_mutex_t *n)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        _exit(pthread_mutex_trylock(m) == 0 && pthread_mutex_trylock(n) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct nest {
    pthread_mutex_t outer;
    pthread_mutex_t inner;
    pthread_barrier_t step;
};

static void *lock_both(void *argument)
{
    struct nest *n = argument;
    const struct timespec meanwhile = {.tv_nsec = 300000000}; /* the fork begins, and waits for `outer` */
    pthread_mutex_lock(&n->outer);
    pthread_barrier_wait(&n->step);
    nanosleep(&meanwhile, NULL);
    pthread_mutex_lock(&n->inner);
    pthread_mutex_unlock(&n->inner);
    pthread_mutex_unlock(&n->outer);
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

/* In whatever order the fork knows them. */
static void nested_locks(void **state)
{
    static struct nest nests[2] = {{.outer = PTHREAD_MUTEX_INITIALIZER, .inner = PTHREAD_MUTEX_INITIALIZER},
                                   {.outer = PTHREAD_MUTEX_INITIALIZER, .inner = PTHREAD_MUTEX_INITIALIZER}};
    (void)state;
    tti_fork_protect(&nests[0].outer);
    tti_fork_protect(&nests[0].inner);
    tti_fork_protect(&nests[1].inner);
    tti_fork_protect(&nests[1].outer);
    for (int i = 0; i < 2; i++) {
        fork_beside(&nests[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nested_locks)};
    alarm(60); /* a fork that waits for ever fails the test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
