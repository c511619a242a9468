/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that run out of descriptors on purpose. */
#ifndef TESTS_DESCRIPTORS_H
#define TESTS_DESCRIPTORS_H

#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

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
