/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=35 ranks=2,3 timeout=300 trees=release,debug,address,undefined */
/*
 * Kernels without futex_waitv, without robust lists, or without both: ranks still notice deaths and ranks that leave,
 * since they poll the life words or /proc more often. Nothing else changes. In containers ranks may not read each
 * other's memory: large tensors and messages go through the segment instead. A filter of system calls makes this kernel
 * behave like those.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

static struct round_state *state;
static int32_t size;
static int failures;

static void check(struct round r)
{
    char text[COMPLAINT];
    r.size = size;
    r.init_ms = LONG_MS;
    r.calls = 2;
    r.call_ms = r.call_ms > 0 ? r.call_ms : LONG_MS;
    run_checked_round(state, &r, text);
    if (text[0]) {
        print_round(&r, stderr);
        fprintf(stderr, " (missing 0x%x): %s\n", r.missing, text);
        failures++;
    }
}

static void check_kernel(unsigned missing)
{
    const enum disturbance ends[] = {DISTURBANCE_KILL, DISTURBANCE_QUICK_EXIT, DISTURBANCE_EXIT, DISTURBANCE_SEGV};
    for (int i = 0; i < 4; i++) {
        check((struct round){.missing = missing,
                             .victim = i % size,
                             .point = i % 2 ? POINT_WAITING : POINT_INSIDE,
                             .disturbance = ends[i],
                             .work = i % 2 ? WORK_BARRIER : WORK_LARGE_REDUCE,
                             .delay_us = 1000});
    }
    check((struct round){.missing = missing,
                         .victim = size - 1,
                         .point = POINT_BETWEEN,
                         .disturbance = DISTURBANCE_KILL,
                         .work = WORK_MESSAGES});
    check((struct round){.missing = missing,
                         .victim = 0,
                         .point = POINT_BETWEEN,
                         .disturbance = DISTURBANCE_STOP,
                         .work = WORK_SMALL,
                         .call_ms = STOPPED_MS});
    check((struct round){.missing = missing,
                         .victim = 1,
                         .point = POINT_BEFORE_INIT,
                         .disturbance = DISTURBANCE_CALLER_EXIT,
                         .work = WORK_LANES});
}

/* In a child, which cannot get rid of the filter again. */
static bool can_refuse(void)
{
    int status = 1;
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(refuse(MISSING_WAITV) ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    size = argc > 1 ? atoi(argv[1]) : 2;
    if (!can_refuse()) {
        printf("skipped: this system allows no filters of system calls\n");
        return 77;
    }
    state = round_state_make();
    check_kernel(MISSING_WAITV);
    check_kernel(MISSING_ROBUST_LISTS);
    check_kernel(MISSING_WAITV | MISSING_ROBUST_LISTS | MISSING_PIDFD | MISSING_MEMBARRIER);
    setenv("TUTTI_ENGINE_SINGLE_COPY_BYTES", "4K", 1);
    for (enum work work = WORK_BROADCAST; work <= WORK_MESSAGES; work++) {
        check((struct round){.missing = MISSING_PROCESS_READ,
                             .victim = 0,
                             .point = POINT_WAITING,
                             .disturbance = DISTURBANCE_PAUSE,
                             .work = work,
                             .pause_us = 1000});
    }
    unsetenv("TUTTI_ENGINE_SINGLE_COPY_BYTES");
    /* only a robust list shows that a process has become another program: without one, the deadline passes */
    check((struct round){.missing = MISSING_ROBUST_LISTS,
                         .victim = 0,
                         .point = POINT_BETWEEN,
                         .disturbance = DISTURBANCE_EXEC,
                         .work = WORK_BARRIER,
                         .call_ms = STOPPED_MS});
    return failures != 0;
}
