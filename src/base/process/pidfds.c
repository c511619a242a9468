/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process/pidfds.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/process/fork.h"

struct known {
    struct known *next;
    uint64_t instance;
    int fd;
    int users;
};

static struct tti_fork_mutex lock = TTI_FORK_MUTEX_INIT;
static struct known *all;

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
    tti_fork_mutex_lock(&lock);
    struct known *k = *find(instance);
    if (!k && fd >= 0 && (k = calloc(1, sizeof(*k)))) {
        *k = (struct known){.next = all, .instance = instance, .fd = fd};
        all = k;
        fd = -1;
    }
    if (k) {
        k->users++;
    }
    tti_fork_mutex_unlock(&lock);
    if (fd >= 0) {
        close(fd);
    }
    return k != NULL;
}

void tti_pidfd_release(uint64_t instance)
{
    tti_fork_mutex_lock(&lock);
    struct known **at = find(instance);
    struct known *k = *at;
    const bool last = k && --k->users == 0;
    if (last) {
        *at = k->next;
    }
    tti_fork_mutex_unlock(&lock);
    if (last) {
        close(k->fd);
        free(k);
    }
}

int tti_pidfd_of(uint64_t instance)
{
    tti_fork_mutex_lock(&lock);
    const struct known *k = *find(instance);
    const int fd = k ? fcntl(k->fd, F_DUPFD_CLOEXEC, 0) : -1;
    tti_fork_mutex_unlock(&lock);
    return fd;
}

bool tti_pidfd_has_ended(uint64_t instance)
{
    tti_fork_mutex_lock(&lock);
    const struct known *k = *find(instance);
    const bool ended = k && poll(&(struct pollfd){.fd = k->fd, .events = POLLIN}, 1, 0) > 0;
    tti_fork_mutex_unlock(&lock);
    return ended;
}
