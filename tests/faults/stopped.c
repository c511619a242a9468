/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,4 timeout=300 trees=release,debug,address,undefined */
/*
 * A stopped rank is not dead. The deadline of the other ranks passes; their error names the rank and says that it is
 * stopped. When the rank goes on, it gets REVOKED. If it goes on before the deadline, no call fails. No call fails
 * either if its main thread ends, or the thread of each call, or if signals interrupt it all the time.
 */
#include <stdlib.h>

#include "faults/support/round.h"
#include "time_limits.h"

static struct round_state *state;
static int failures;

static void check(struct round r)
{
    r.init_ms = LONG_MS;
    r.calls = 2;
    failures += check_round(state, &r);
}

int main(int argc, char **argv)
{
    const int32_t size = argc > 1 ? atoi(argv[1]) : 2;
    const enum work works[] = {WORK_BARRIER, WORK_LARGE_REDUCE};
    state = round_state_make();
    for (int i = 0; i < 2; i++) {
        check((struct round){.size = size,
                             .victim = size - 1 - i,
                             .point = POINT_BETWEEN,
                             .disturbance = DISTURBANCE_STOP,
                             .work = works[i],
                             .call_ms = STOPPED_MS});
        check((struct round){.size = size,
                             .victim = i,
                             .point = POINT_INSIDE,
                             .disturbance = DISTURBANCE_PAUSE,
                             .work = works[i],
                             .delay_us = 500,
                             .pause_us = 300000, /* so long that the other ranks check its process */
                             .call_ms = LONG_MS});
    }
    const struct round nothings[] = {
        {.disturbance = DISTURBANCE_MAIN_EXIT, .point = POINT_INSIDE, .work = WORK_GROUPS},
        {.disturbance = DISTURBANCE_CALLER_EXIT, .point = POINT_BEFORE_INIT, .work = WORK_ASYNC},
        {.disturbance = DISTURBANCE_STORM, .point = POINT_BEFORE_INIT, .work = WORK_MESSAGES},
        {.disturbance = DISTURBANCE_STORM, .point = POINT_BEFORE_INIT, .work = WORK_GROUPS}};
    for (size_t i = 0; i < sizeof(nothings) / sizeof(nothings[0]); i++) {
        struct round r = nothings[i];
        r.size = size;
        r.victim = (int32_t)i % size;
        r.delay_us = 200;
        r.call_ms = LONG_MS;
        check(r);
    }
    return failures != 0;
}
