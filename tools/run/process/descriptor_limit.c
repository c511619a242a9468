/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher holds descriptors for each rank: two pipes for output, the flight recorder, a connection to the store.
 * The soft limit is raised to the hard one before the first rank starts (run.c), and every rank gets the soft limit
 * back that the launcher was started with (launch.c): programs that use select() rely on a low one. The sentence here
 * says what to do if the hard limit is too low.
 */
#include "run/process/descriptor_limit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define PER_RANK 6 /* five at most were seen; the store holds those that ranks pass to one another meanwhile */
#define OTHERS   20

void tti_run_describe_errno(int errnum, int ranks, char *text, size_t capacity)
{
    struct rlimit limit;
    if (errnum != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        snprintf(text, capacity, "%s", strerror(errnum));
        return;
    }
    const long long need = (long long)PER_RANK * ranks + OTHERS;
    snprintf(text, capacity,
             "%s: the limit is %lld (hard limit %lld), and %d rank%s need about %lld; raise it with `ulimit -n %lld`",
             strerror(errnum), (long long)limit.rlim_cur, (long long)limit.rlim_max, ranks, ranks == 1 ? "" : "s", need,
             need);
}
