/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,4 timeout=300 trees=release,debug,address,undefined */
/*
 * A rank that is stopped is not dead: the others' deadline passes, their error names it and says that it is stopped, and
 * when it goes on it gets REVOKED.
 */
#include "judge.h"

int main(int argc, char **argv)
{
    const int32_t size = argc > 1 ? atoi(argv[1]) : 2;
    struct stage *stage = stage_make();
    int failures = 0;
    const enum work works[] = {WORK_BARRIER, WORK_LARGE_REDUCE};
    for (int i = 0; i < 2; i++) {
        const struct round r = {.size = size,
                                .victim = size - 1 - i,
                                .point = POINT_BETWEEN,
                                .end = END_STOP,
                                .work = works[i],
                                .calls = 2,
                                .init_ms = CALL_MS,
                                .call_ms = 1500};
        char text[COMPLAINT];
        judge(stage, run_round(stage, &r), text);
        if (text[0]) {
            tell_round(&r, stderr);
            fprintf(stderr, ": %s\n", text);
            failures++;
        }
    }
    return failures != 0;
}
