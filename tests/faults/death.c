/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3,4 timeout=300 trees=release,debug,address,undefined */
/*
 * A rank is killed, or ends in another unplanned way, at each point and in each kind of operation. The other ranks
 * return PEER_DEAD, which names the rank and its process.
 */
#include <stdlib.h>

#include "faults/support/round.h"
#include "time_limits.h"

static struct round_state *state;
static int failures;

static void check(struct round r)
{
    r.init_ms = r.init_ms > 0 ? r.init_ms : LONG_MS;
    r.call_ms = LONG_MS;
    failures += check_round(state, &r);
}

int main(int argc, char **argv)
{
    const int32_t size = argc > 1 ? atoi(argv[1]) : 2;
    const int32_t last = size - 1;
    state = round_state_make();
    for (enum work w = 0; w < WORK_COUNT; w++) {
        const bool large = w == WORK_LARGE_REDUCE;
        check((struct round){.size = size, .victim = last, .point = POINT_BETWEEN, .work = w, .calls = 3});
        check((struct round){.size = size,
                             .victim = w % size,
                             .point = POINT_INSIDE,
                             .work = w,
                             .calls = 2,
                             .delay_us = large ? 2000 : 50});
    }
    check((struct round){
        .size = size, .victim = 0, .point = POINT_WAITING, .work = WORK_LARGE_REDUCE, .delay_us = 20000});
    check(
        (struct round){.size = size, .victim = last, .point = POINT_WAITING, .work = WORK_MESSAGES, .delay_us = 20000});
    const enum disturbance ends[] = {DISTURBANCE_SEGV, DISTURBANCE_QUICK_EXIT, DISTURBANCE_EXIT, DISTURBANCE_EXEC};
    for (int i = 0; i < 4; i++) {
        check((struct round){.size = size,
                             .victim = last,
                             .point = POINT_BETWEEN,
                             .disturbance = ends[i],
                             .work = WORK_SMALL,
                             .calls = 1});
        check((struct round){.size = size,
                             .victim = i % size,
                             .point = POINT_INSIDE,
                             .disturbance = ends[i],
                             .work = WORK_LARGE_REDUCE,
                             .calls = 1,
                             .delay_us = 1000});
    }
    /* before init and during init: the error of the other ranks depends on how far the victim is */
    check((struct round){.size = size, .victim = last, .point = POINT_BEFORE_INIT, .init_ms = 1500});
    check((struct round){.size = size, .victim = 0, .point = POINT_INIT, .delay_us = 1000, .init_ms = 1500});
    /* a rank that leaves while sub-groups are made is missing there */
    const enum point points[] = {POINT_BETWEEN, POINT_WAITING, POINT_INSIDE, POINT_INSIDE};
    for (int i = 0; i < 4; i++) {
        check((struct round){.size = size,
                             .victim = i % 2 ? 0 : last,
                             .point = points[i],
                             .disturbance = DISTURBANCE_EXIT,
                             .work = WORK_GROUPS,
                             .calls = 1,
                             .delay_us = 50 << 3 * i});
    }
    check(
        (struct round){.size = size, .victim = last, .point = POINT_BEFORE_DESTROY, .work = WORK_BARRIER, .calls = 2});
    return failures != 0;
}
