/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process/pidfds.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/process/fork.h"

struct known {
    struct known *next;
    uint64_t instance;
    int fd;
    int users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *all;

static void protect(void)
{
    tti_fork_protect(&lock);
}

/* With the lock held: where the entry is, or where the list ends. */
static struct known **find(uint64_t instance)
{
    struct known **at = &all;
    while (*at && (*at)->instance != instance) {
        at = &(*at)->next;
    }
    return at;
}

bool tti_pidfd_register(uint64_t instance, int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, protect);
    pthread_mutex_lock(&lock);
    struct known *k = *find(instance);
    if (!k && fd >= 0 && (k = calloc(1, sizeof(*k)))) {
        *k = (struct known){.next = all, .instance = instance, .fd = fd};
        all = k;
        fd = -1;
    }
    if (k) {
        k->users++;
    }
    pthread_mutex_unlock(&lock);
    if (fd >= 0) {
        close(fd);
    }
    return k != NULL;
}

void tti_pidfd_release(uint64_t instance)
{
    pthread_mutex_lock(&lock);
    struct known **at = find(instance);
    struct known *k = *at;
    const bool last = k && --k->users == 0;
    if (last) {
        *at = k->next;
    }
    pthread_mutex_unlock(&lock);
    if (last) {
        close(k->fd);
        free(k);
    }
}

int tti_pidfd_of(uint64_t instance)
{
    pthread_mutex_lock(&lock);
    const struct known *k = *find(instance);
    const int fd = k ? fcntl(k->fd, F_DUPFD_CLOEXEC, 0) : -1;
    pthread_mutex_unlock(&lock);
    return fd;
}

bool tti_pidfd_has_ended(uint64_t instance)
{
    pthread_mutex_lock(&lock);
    const struct known *k = *find(instance);
    const bool ended = k && poll(&(struct pollfd){.fd = k->fd, .events = POLLIN}, 1, 0) > 0;
    pthread_mutex_unlock(&lock);
    return ended;
}
