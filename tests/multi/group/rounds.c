/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=1,3,4 timeout=120 */
/*
 * A job that begins and ends Tutti several times, and holds several worlds at once. State of one round must not be
 * taken for that of the next, even if some ranks are a round ahead: at the end of a round ranks wait in a barrier only.
 */
#include <stdio.h>
#include <tutti/tutti.h>

#include "time_limits.h"

#define ROUNDS 8
#define WORLDS 3

static int failures;

static void expect(int ok, const char *what, int round, const tutti_error *e)
{
    if (!ok) {
        fprintf(stderr, "round %d: %s: %s\n", round, what, e->message);
        failures++;
    }
}

/* Every rank adds its rank and a number. The number is the same on all ranks, and different in each world. */
static void use(tutti_group *g, int32_t secret, const char *what, int round)
{
    tutti_error e;
    int64_t one = 1;
    int32_t n = tutti_group_size(g);
    int32_t value = secret + tutti_group_rank(g);
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e, .tag = (uint32_t)secret));
    expect(status == TUTTI_OK, what, round, &e);
    if (status == TUTTI_OK && value != n * secret + n * (n - 1) / 2) {
        fprintf(stderr, "round %d: %s: the sum is %d\n", round, what, value);
        failures++;
    }
}

static void run_round(int round)
{
    tutti_group *worlds[WORLDS] = {NULL};
    tutti_group *children[WORLDS] = {NULL};
    tutti_error e;
    for (int w = 0; w < WORLDS; w++) {
        tutti_status status = tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS, .lanes = w + 1), &worlds[w], &e);
        expect(status == TUTTI_OK, "init", round, &e);
        if (status != TUTTI_OK) {
            return;
        }
    }
    for (int w = WORLDS - 1; w >= 0; w--) {
        use(worlds[w], 100 * round + w, "world", round);
        int32_t rank = tutti_group_rank(worlds[w]);
        tutti_status status = tutti_group_split(worlds[w], rank % 2, -rank, NULL, &children[w], &e);
        expect(status == TUTTI_OK && tutti_group_lanes(children[w]) == w + 1, "split", round, &e);
    }
    /* In odd rounds the parents go first, and the sub-groups still work. */
    for (int w = 0; w < WORLDS - 1 && round % 2; w++) {
        expect(tutti_group_destroy(worlds[w], &e) == TUTTI_OK, "destroy", round, &e);
    }
    for (int w = 0; w < WORLDS; w++) {
        use(children[w], 1000 * round + w, "child", round);
    }
    expect(tutti_barrier(worlds[WORLDS - 1], TUTTI_CALL(.error = &e)) == TUTTI_OK, "barrier", round, &e);
    if (round % 3 == 0) { /* else finalize destroys the rest */
        for (int w = 0; w < WORLDS; w++) {
            expect(tutti_group_destroy(children[w], &e) == TUTTI_OK, "destroy", round, &e);
        }
    }
    expect(tutti_finalize(&e) == TUTTI_OK, "finalize", round, &e);
    expect(tutti_group_size(worlds[WORLDS - 1]) == -1, "a group after finalize", round, &e);
}

int main(void)
{
    for (int round = 0; round < ROUNDS && failures == 0; round++) {
        run_round(round);
    }
    return failures != 0;
}
