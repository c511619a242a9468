/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=300 trees=release,debug,address,undefined */
/*
 * One rank lacks something while the group is being made: descriptors, from as many as it takes to meet the others to as many as
 * it needs; memory files, their memory, their mappings. All ranks get that as NO_RESOURCE or NO_MEMORY, or a group, and nobody
 * waits for the deadline, whether that rank serves the store or not. Which one does is left to chance.
 */
#include <stdlib.h>

#include "faults/support/round.h"

#define TO_MEET  6     /* descriptors that a rank needs that serves the store and meets nobody but itself */
#define INIT_MS  20000 /* too long for the test, if every round took it */
#define ATTEMPTS 3     /* a rank that comes after the one that lacks something has ended has nobody to tell it why */

static struct stage *stage;
static int32_t size;
static int failures;

static bool somebody_was_missed(void)
{
    bool missed = false;
    for (int32_t i = 0; i < size; i++) {
        const tutti_status init = stage->seen[i].init;
        missed = missed || init == TUTTI_TIMEOUT || init == TUTTI_PEER_LEFT;
    }
    return missed;
}

static void check(enum fate fate, enum place place, int32_t occurrence, int32_t victim)
{
    const struct round r = {.size = size,
                            .victim = victim,
                            .point = POINT_INIT,
                            .fate = fate,
                            .work = WORK_BARRIER,
                            .place = place,
                            .occurrence = occurrence,
                            .init_ms = INIT_MS,
                            .call_ms = CALL_MS};
    char text[COMPLAINT];
    int attempts = 0;
    do {
        judge(stage, run_round(stage, &r), text);
    } while (!text[0] && somebody_was_missed() && ++attempts < ATTEMPTS);
    if (text[0] || attempts == ATTEMPTS) {
        tell_round(&r, stderr);
        fprintf(stderr, ": %s%s\n", text, attempts == ATTEMPTS ? "somebody was missed each time" : "");
        failures++;
    }
}

int main(int argc, char **argv)
{
    static const int32_t more[] = {0, 1, 2, 3, 4, 6, 8, 12};
    size = argc > 1 ? atoi(argv[1]) : 2;
    stage = stage_make();
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        check(FATE_NO_DESCRIPTORS, PLACE_TIME, TO_MEET + more[i], (int32_t)i % size);
    }
    for (int32_t victim = 0; victim < size; victim++) {
        for (int32_t occurrence = 1; occurrence <= 3; occurrence++) { /* the trial, the segment, the bell */
            check(FATE_NO_MEMORY, PLACE_FILE, occurrence, victim);
        }
        check(FATE_NO_MEMORY, PLACE_COMMIT, 2, victim);
        check(FATE_NO_MEMORY, PLACE_MAP, 3, victim);
    }
    return failures != 0;
}
