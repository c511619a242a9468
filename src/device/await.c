/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for an event. The vendors' own waits either use a whole CPU or have no deadline, so this one polls. Most
 * copies take microseconds: the first rounds only pause. Then the thread yields. Then it sleeps for a quarter of the
 * time that it has waited, at most half a millisecond, so that a sleep adds little to a long wait.
 */
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"

enum { SPINS = 64, YIELD_NS = 50000, LONGEST_SLEEP_NS = 500000 };

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

tutti_status tti_device_await(const struct tti_device *device, void *event, int64_t deadline_ns, tutti_error *error)
{
    int64_t begun = 0;
    for (unsigned round = 0;; round++) {
        int32_t done = 0;
        tutti_status status = device->event_query(event, &done, error);
        if (status != TUTTI_OK || done) {
            return status;
        }
        if (round < SPINS && deadline_ns == TTI_NEVER) {
            pause_cpu();
            continue;
        }
        const int64_t now = tti_now_ns();
        begun = begun ? begun : now;
        if (now >= deadline_ns) {
            return tti_error_set(error, TUTTI_TIMEOUT,
                                 "the work on a stream of device %s was not complete at the deadline, %.1f ms after "
                                 "the wait began: allow "
                                 "more time, or look for a kernel that does not end",
                                 device->name, (double)(now - begun) / 1e6);
        }
        const int64_t waited = now - begun;
        if (round < SPINS) {
            pause_cpu();
        } else if (waited < YIELD_NS) {
            sched_yield();
        } else {
            int64_t sleep = waited / 4 < LONGEST_SLEEP_NS ? waited / 4 : LONGEST_SLEEP_NS;
            sleep = sleep < deadline_ns - now ? sleep : deadline_ns - now;
            const struct timespec time = {.tv_nsec = (long)sleep};
            nanosleep(&time, NULL); /* a signal only ends the sleep sooner */
        }
    }
}
