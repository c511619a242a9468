/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=300 trees=release,debug,address,undefined */
/*
 * One rank runs out of a resource while the group is made: descriptors (each limit from the number that the rendezvous
 * takes to the number that the rank needs), memory files, their memory, their mappings. Either all ranks get a group,
 * or all get NO_RESOURCE or NO_MEMORY. No rank waits for its deadline. The store's server may or may not be that rank.
 */
#include <stdlib.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define TO_CONNECT 6     /* descriptors that a rank alone needs if it serves the store */
#define INIT_MS    20000 /* too long for the test, if every round took it */
#define ATTEMPTS   3     /* a rank that arrives after the failed rank has ended cannot learn the cause */

static struct round_state *state;
static int32_t size;
static int failures;

static bool a_rank_was_missed(void)
{
    bool missed = false;
    for (int32_t i = 0; i < size; i++) {
        const tutti_status init = state->seen[i].init;
        missed = missed || init == TUTTI_TIMEOUT || init == TUTTI_PEER_LEFT;
    }
    return missed;
}

static void check(enum disturbance disturbance, enum place place, int32_t occurrence, int32_t victim)
{
    const struct round r = {.size = size,
                            .victim = victim,
                            .point = POINT_INIT,
                            .disturbance = disturbance,
                            .work = WORK_BARRIER,
                            .place = place,
                            .occurrence = occurrence,
                            .init_ms = INIT_MS,
                            .call_ms = LONG_MS};
    char text[COMPLAINT];
    int attempts = 0;
    do {
        run_checked_round(state, &r, text);
    } while (!text[0] && a_rank_was_missed() && ++attempts < ATTEMPTS);
    if (text[0] || attempts == ATTEMPTS) {
        print_round(&r, stderr);
        fprintf(stderr, ": %s%s\n", text, attempts == ATTEMPTS ? "a rank was missed in each attempt" : "");
        failures++;
    }
}

int main(int argc, char **argv)
{
    static const int32_t more[] = {0, 1, 2, 3, 4, 6, 8, 12};
    size = argc > 1 ? atoi(argv[1]) : 2;
    state = round_state_make();
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        check(DISTURBANCE_NO_DESCRIPTORS, PLACE_TIME, TO_CONNECT + more[i], (int32_t)i % size);
    }
    for (int32_t victim = 0; victim < size; victim++) {
        for (int32_t occurrence = 1; occurrence <= 3; occurrence++) { /* the trial, the segment, the doorbell */
            check(DISTURBANCE_NO_MEMORY, PLACE_FILE, occurrence, victim);
        }
        check(DISTURBANCE_NO_MEMORY, PLACE_COMMIT, 2, victim);
        check(DISTURBANCE_NO_MEMORY, PLACE_MAP, 3, victim);
    }
    return failures != 0;
}
