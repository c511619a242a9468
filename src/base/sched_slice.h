/* SPDX-License-Identifier: BSD-3-Clause */
/* The slice of time that the scheduler gives a thread before it looks at others: from Linux 6.12 on a thread may choose. */
#ifndef TTI_BASE_SLICE_H
#define TTI_BASE_SLICE_H

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

/* Of the calling thread; false if the system does not tell, or has another policy for it. */
static inline bool tti_scheduling_of(struct tti_scheduling *s)
{
    *s = (struct tti_scheduling){.size = sizeof(*s)};
    return syscall(SYS_sched_getattr, 0, s, sizeof(*s), 0) == 0 && s->policy == SCHED_OTHER;
}

#define TTI_SLICE_NS 100000 /* the least that the kernel gives */

/* For a thread that runs for moments, each of which somebody waits for. Beside a computation on the same CPU it would wait for
 * the end of a slice, some milliseconds, every time that it has used up its own share. Who asks for a shorter slice gets its
 * turn earlier, and no more time in all. Older kernels ignore it; where it is refused, things are as they were. */
static inline void tti_request_short_slices(void)
{
    struct tti_scheduling s;
    if (tti_scheduling_of(&s)) {
        s.runtime = TTI_SLICE_NS;
        (void)syscall(SYS_sched_setattr, 0, &s, 0);
    }
}

#endif
