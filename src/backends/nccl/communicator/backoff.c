/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backoff of a polling loop. The vendors' waits burn a CPU or cannot be ended, so the loop asks again and again. Most
 * work ends within microseconds, while the loop spins or yields. A longer wait pays at most 50 us more.
 */
#include "backends/nccl/communicator/backoff.h"

#include <sched.h>
#include <time.h>

#define POLLS_BEFORE_YIELD 64u
#define POLLS_BEFORE_SLEEP 4096u /* some milliseconds: querying an event of a device takes about a microsecond */
#define POLLS_PER_CHECK    256u
#define SLEEP_NS           50000

bool tti_nccl_backoff_step(struct tti_nccl_backoff *backoff)
{
    backoff->polls++;
    if (backoff->polls < POLLS_BEFORE_YIELD) {
        return false;
    }
    if (backoff->polls < (backoff->background ? POLLS_PER_CHECK : POLLS_BEFORE_SLEEP)) {
        sched_yield();
        return backoff->polls % POLLS_PER_CHECK == 0;
    }
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    nanosleep(&pause, NULL);
    return true;
}
