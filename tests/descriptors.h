/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting open descriptors, and processes that run out of them on purpose. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

/* How many descriptors are open, with the one that opendir opens; 0 without /proc. */
static inline int open_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory)) {
        count++;
    }
    if (directory) {
        closedir(directory);
    }
    return count;
}

/* Lets this process open `more` descriptors and no others, until *before is set again. */
static inline bool leave_descriptors(int more, struct rlimit *before)
{
    const int next = dup(STDERR_FILENO); /* the lowest free one: all below it are in use */
    if (next < 0 || getrlimit(RLIMIT_NOFILE, before) != 0) {
        return false;
    }
    close(next);
    return setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)(next + more), before->rlim_max}) == 0;
}

#endif
