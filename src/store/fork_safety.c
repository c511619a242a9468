/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three fork handlers (before, in the parent, in the child) around one lock and one set of descriptors. The parent
 * takes the lock before fork, so no thread that is missing in the child holds it there. The child closes the
 * descriptors and calls the registered hooks, which forget servers and memory stores. A descriptor is created and
 * recorded in one critical section: no fork is between them.
 */
#include "store/fork_safety.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* noted[fd] is true for a private descriptor. If it cannot grow, a forked child keeps that descriptor, as with most
 * other libraries. */
static bool *noted;
static int noted_capacity;

#define HOOKS 4

static void (*hooks[HOOKS])(void);
static int hook_count;

static void after_fork_in_child(void)
{
    for (int fd = 0; fd < noted_capacity; fd++) {
        if (noted[fd]) {
            noted[fd] = false;
            close(fd);
        }
    }
    for (int i = 0; i < hook_count; i++) {
        hooks[i]();
    }
    pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void register_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void tti_stores_lock(void)
{
    pthread_once(&once, register_handlers);
    pthread_mutex_lock(&lock);
}

void tti_stores_forget_after_fork(void (*forget)(void))
{
    int i = 0;
    while (i < hook_count && hooks[i] != forget) {
        i++;
    }
    if (i == HOOKS) {
        abort(); /* each caller is a file of the store: HOOKS is too small for them */
    }
    hooks[i] = forget;
    hook_count = i == hook_count ? i + 1 : hook_count;
}

void tti_stores_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void tti_stores_wait(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock);
}

/* Called with the lock held. */
static void note(int fd)
{
    if (fd >= noted_capacity) {
        int capacity = fd < 512 ? 1024 : fd * 2;
        bool *larger = realloc(noted, (size_t)capacity * sizeof(*larger));
        if (!larger) {
            return;
        }
        memset(larger + noted_capacity, 0, (size_t)(capacity - noted_capacity) * sizeof(*larger));
        noted = larger;
        noted_capacity = capacity;
    }
    noted[fd] = true;
}

int tti_private_socket(int domain)
{
    tti_stores_lock();
    int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        note(fd);
    }
    tti_stores_unlock();
    return fd;
}

int tti_private_accept(int listener)
{
    tti_stores_lock();
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        note(fd);
    }
    tti_stores_unlock();
    return fd;
}

int tti_private_adopt(int fd)
{
    if (fd >= 0) {
        tti_stores_lock();
        note(fd);
        tti_stores_unlock();
    }
    return fd;
}

void tti_private_shutdown(int fd)
{
    if (fd >= 0) {
        shutdown(fd, SHUT_RDWR);
        tti_private_close(fd);
    }
}

void tti_private_close(int fd)
{
    if (fd < 0) {
        return;
    }
    int saved = errno;
    tti_stores_lock();
    if (fd < noted_capacity) {
        noted[fd] = false;
    }
    close(fd);
    tti_stores_unlock();
    errno = saved;
}
