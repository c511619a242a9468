/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier: no rank leaves before every rank has arrived.
 *
 * On one host the clock proves it: every rank notes when it enters and when it leaves; the earliest leaving must not be
 * before the latest entering. Not how long something took, but what came before what. A different rank is held up in
 * each round, so that a barrier that does not wait is caught. Where ranks may have different clocks, the rounds are
 * still run and counted.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "check/cases/cases.h"
#include "check/data/device_memory.h"
#include "check/operation/completion.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

struct round {
    int64_t number;
    int64_t entered;
    int64_t left;
};

enum { WORDS = sizeof(struct round) / sizeof(int64_t) };

static tutti_status gather_rounds(struct tti_check *c, struct round *own, struct round *all)
{
    struct tti_check_values input;
    struct tti_check_values output;
    tti_check_values_begin(c, &input, &own->number, WORDS);
    tti_check_values_begin(c, &output, &all->number, WORDS * (int64_t)c->size);
    const tutti_status status = tutti_all_gather(c->group, &input.t, &output.t, 0, TUTTI_CALL(.error = &c->error));
    tti_check_values_end(&input);
    tti_check_values_end(&output);
    return status;
}

static void rounds(struct tti_check *c, int count)
{
    const bool one_clock = (c->capabilities & (TUTTI_CAP_ONE_HOST | TUTTI_CAP_ONE_PROCESS)) != 0;
    struct round *all = calloc((size_t)c->size, sizeof(*all));
    if (!all) {
        tti_check_fail(c, "no memory");
        return;
    }
    for (int i = 0; i < count; i++) {
        struct round own = {.number = i};
        if (c->rank == i % c->size) {
            tti_check_delay_rank();
        }
        own.entered = tti_now_ns();
        c->completion = tti_check_random_completion(c, (uint64_t)i, c->completion == TTI_CHECK_SYNC ? 8 : 0);
        tti_check_ok(c, "barrier", tti_check_barrier(c));
        own.left = tti_now_ns();
        if (!tti_check_ok(c, "all_gather", gather_rounds(c, &own, all))) {
            break;
        }
        int latest = 0;
        for (int r = 0; r < c->size; r++) {
            tti_check_expect_i64(c, "number of the round", all[r].number, i);
            latest = all[r].entered > all[latest].entered ? r : latest;
        }
        if (one_clock && own.left < all[latest].entered) {
            tti_check_fail(c, "round %d: this rank left %lld ns before rank %d entered", i,
                           (long long)(all[latest].entered - own.left), latest);
        }
    }
    free(all);
}

/* A barrier is no message: numbers that go around a ring on both sides of it stay in order. */
static void between_messages(struct tti_check *c)
{
    const int next = tti_check_next(c);
    const int previous = tti_check_previous(c);
    for (int64_t i = 0; i < 20; i++) {
        int64_t sent = 1000 * i + c->rank;
        int64_t received = -1;
        tti_check_ok(c, "sendrecv", tti_check_sendrecv_values(c, &sent, next, &received, previous, 5));
        tti_check_expect_i64(c, "the number that came", received, 1000 * i + previous);
        tti_check_ok(c, "barrier", tti_check_barrier(c));
    }
}

void tti_check_barrier_cases(struct tti_check *c)
{
    TTI_CHECK_ROUNDS(c, 0, "no-rank-leaves-early") {
        rounds(c, c->quick ? 2 * c->size : 6 * c->size);
    }
    TTI_CHECK_ROUNDS(c, 0, "back-to-back") {
        const int count = c->quick ? 100 : 1000;
        for (int i = 0; i < count; i++) {
            if (!tti_check_ok(c, "barrier", tti_check_barrier(c))) {
                break;
            }
        }
        rounds(c, 1);
    }
    TTI_CHECK_ROUNDS(c, 0, "between-messages") {
        between_messages(c);
    }
}
