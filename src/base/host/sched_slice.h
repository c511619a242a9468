/* SPDX-License-Identifier: BSD-3-Clause */
/* The time slice of a thread before the scheduler runs others. From Linux 6.12 on a thread may choose it (EEVDF). */
#ifndef TTI_BASE_HOST_SCHED_SLICE_H
#define TTI_BASE_HOST_SCHED_SLICE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's struct sched_attr as it was first, which Debian 12's libc does not declare. */
struct tti_scheduling {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; /* of ordinary threads: the slice in ns */
    uint64_t deadline;
    uint64_t period;
};

/* Of the calling thread; false if it cannot be read, or has another policy. */
static inline bool tti_scheduling_of(struct tti_scheduling *s)
{
    *s = (struct tti_scheduling){.size = sizeof(*s)};
    return syscall(SYS_sched_getattr, 0, s, sizeof(*s), 0) == 0 && s->policy == SCHED_OTHER;
}

#define TTI_SLICE_NS 100000 /* the kernel's minimum */

/* For a thread that runs briefly while others wait for it. Beside a computation on the same CPU it would wait for the
 * end of that thread's slice, some milliseconds, whenever its own share is used up. A thread with a shorter slice runs
 * earlier, and gets no more time in all. Older kernels ignore the request. */
static inline void tti_request_short_slices(void)
{
    struct tti_scheduling s;
    if (tti_scheduling_of(&s)) {
        s.runtime = TTI_SLICE_NS;
        (void)syscall(SYS_sched_setattr, 0, &s, 0);
    }
}

#endif
