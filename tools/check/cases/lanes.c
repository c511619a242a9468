/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes: two threads of every rank run different sequences on the same group at once, one per lane; and messages pass
 * beside them, since they lie outside the order of lanes. Half of the operations are asynchronous. */
#include <pthread.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

enum { LANES = 2 };

enum {
    FIRST_TAG = 70,    /* one tag for each lane, since messages of the lanes may pass each other */
    RANKS_MOST = 1000, /* in groups of so many, no two rounds of messages send the same number */
    LANE_SALT = 50,    /* one for each lane: its data is its own */
    DRAW_SALT = 1000,  /* the numbers of draws; smaller ones are the salts of the lane's operations */
    EXTRA_DRAWS = 17,  /* of each further lane, which then runs alone for a while */
};

struct worker {
    struct tti_check check;
    int draws; /* from the table of collectives; an entry without a form gives a message or nothing */
    bool sends_messages;
};

static void pass_around(struct tti_check *c, int64_t number)
{
    const int next = tti_check_next(c);
    const int previous = tti_check_previous(c);
    const int tag = FIRST_TAG + c->lane;
    int64_t sent = number * RANKS_MOST + c->rank;
    int64_t received = -1;
    tti_check_ok(c, "sendrecv", tti_check_sendrecv_values(c, &sent, next, &received, previous, tag));
    tti_check_expect_i64(c, "the number that came", received, number * RANKS_MOST + previous);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (int i = 0; i < w->draws; i++) {
        const uint64_t draw = tti_check_mix(w->check.key, (uint64_t)i + DRAW_SALT);
        const struct tti_check_collective *collective = &tti_check_collectives[draw % tti_check_collectives_count];
        struct tti_check sub = tti_check_sub(&w->check, w->check.group, (uint64_t)i);
        tti_check_label(&sub, " lane %d #%d %s", sub.lane, i, collective->name);
        sub.completion = tti_check_random_completion(&sub, 0, 4);
        if (collective->form) {
            const struct tti_check_plan p = tti_check_plan_random(&sub, collective->traits, draw, 40000);
            tti_check_run(&sub, collective->form, &p);
        } else if (w->sends_messages) {
            pass_around(&sub, i);
        }
        tti_check_merge(&w->check, &sub);
    }
    return NULL;
}

static void run_on_all_lanes(struct tti_check *c, bool sends_messages)
{
    struct worker workers[LANES];
    pthread_t threads[LANES];
    int started = 0;
    for (int lane = 0; lane < LANES; lane++) {
        workers[lane].check = tti_check_sub(c, c->group, LANE_SALT + (uint64_t)lane);
        workers[lane].check.lane = lane;
        workers[lane].draws = (c->quick ? 40 : 200) + EXTRA_DRAWS * lane;
        workers[lane].sends_messages = sends_messages;
    }
    for (; started < LANES; started++) {
        if (pthread_create(&threads[started], NULL, work, &workers[started]) != 0) {
            tti_check_fail(c, "cannot start a thread");
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        tti_check_merge(c, &workers[i].check);
    }
}

void tti_check_lanes_cases(struct tti_check *c)
{
    TTI_CHECK_CASE(c, "two-threads") {
        run_on_all_lanes(c, false);
    }
    TTI_CHECK_CASE(c, "two-threads-and-messages") {
        run_on_all_lanes(c, true);
    }
    TTI_CHECK_CASE(c, "one-thread-alternating") {
        /* the lanes of a group keep separate counts */
        for (int i = 0; i < (c->quick ? 20 : 100); i++) {
            struct tti_check sub = tti_check_sub(c, c->group, (uint64_t)i);
            sub.lane = (int)(tti_check_mix(c->key, (uint64_t)i) % LANES);
            sub.completion = tti_check_random_completion(&sub, 0, 4);
            const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, 1 + 40 * i);
            tti_check_run(&sub, &tti_check_all_reduce_form, &p);
            tti_check_merge(c, &sub);
        }
    }
}
