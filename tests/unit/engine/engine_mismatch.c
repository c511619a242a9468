/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=300 */
/*
 * Ranks that call different things, at random: other roots, operations and counts, in every class, in one step and in
 * two, on two lanes at once, staged and zero-copy. The test knows what each rank called, so it knows which calls must
 * return MISMATCH: at once, if a rank waits for a peer that called something else; otherwise in the next call that
 * shows it; each exactly once. A call that returns OK, or reports only an earlier one, has the right result. The calls
 * after a barrier all return OK.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "repetitions.h"
#include "unit/engine/engine_calls.h"

#define WINDOW 8192u /* gives a stage of 64 KiB */
#define ROUNDS 250
#define LANES  2

static const tutti_operation kinds[] = {TUTTI_OP_BROADCAST,  TUTTI_OP_REDUCE,     TUTTI_OP_GATHER,
                                        TUTTI_OP_SCATTER,    TUTTI_OP_ALL_REDUCE, TUTTI_OP_ALL_GATHER,
                                        TUTTI_OP_ALL_TO_ALL, TUTTI_OP_BARRIER,    TUTTI_OP_REDUCE_SCATTER};
#define KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define ROOTED 4u

/* The last calls need more than the stage holds. */
static const size_t counts[] = {0, 1, 9, 40, 300, 1500, 5000, 40000};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static uint64_t number(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = (a * 0x9e3779b97f4a7c15 ^ b) * 0xbf58476d1ce4e5b9 ^ c;
    h = (h ^ h >> 31) * 0x94d049bb133111eb;
    return h ^ h >> 29;
}

static struct reference_call some_call(int size, tutti_operation kind, uint64_t chance)
{
    const size_t count = counts[chance % COUNTS];
    const bool joined = sends_joined(kind) || receives_joined(kind);
    return (struct reference_call){.kind = kind,
                                   .dtype = TUTTI_I32,
                                   .size = size,
                                   .root = reference_is_rooted(kind) ? (int)((chance >> 8) % (uint64_t)size) : 0,
                                   .rows = 1,
                                   .count = kind == TUTTI_OP_BARRIER ? 0
                                            : joined                 ? count / (size_t)size
                                                                     : count,
                                   .seed = (uint32_t)(chance >> 16) % 1000};
}

static struct reference_call right_call(int size, uint64_t chance)
{
    return some_call(size, kinds[(chance >> 32) % KINDS], chance);
}

/* The call of `rank` where ranks may differ. */
static struct reference_call wrong_call(int size, uint64_t chance, int rank)
{
    const uint64_t own = number(chance, 7, (uint64_t)rank);
    const bool deviates = (chance >> 40) % (uint64_t)size == (uint64_t)rank;
    struct reference_call c = some_call(size, kinds[(chance >> 32) % ROOTED], chance);
    const uint32_t seed = c.seed;
    switch ((chance >> 52) % 5) {
    case 0: /* every rank has a root of its own */
        c.root = (int)(own % (uint64_t)size);
        break;
    case 1:
        c.root = deviates ? (c.root + 1) % size : c.root;
        break;
    case 2:
        c = deviates ? some_call(size, kinds[own % KINDS], chance) : c;
        break;
    case 3:
        c = deviates ? some_call(size, c.kind, own) : c;
        break;
    default:
        c = some_call(size, kinds[own % KINDS], own >> 8);
        break;
    }
    c.seed = seed; /* ranks that call the same have matching data */
    return c;
}

static bool same(const struct reference_call *a, const struct reference_call *b)
{
    return a->kind == b->kind && a->root == b->root && a->count == b->count;
}

/* A reduce of so many bytes goes by slices: half of those that are too large for packets. */
#define SLICED 10000u

/* Whether `rank` must see the call of `peer` before it ends its own. */
static bool waits_for(const struct reference_call *c, int rank, int peer)
{
    if (c->kind == TUTTI_OP_REDUCE && c->count * sizeof(int32_t) >= SLICED) {
        return peer != rank;
    }
    switch (c->kind) {
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_SCATTER:
        return peer == c->root && rank != c->root;
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_GATHER:
        return rank == c->root && peer != rank;
    default:
        return peer != rank;
    }
}

/* The end of this thread's last call. */
static _Thread_local tutti_status ended;
static _Thread_local bool late_mismatch; /* its error is about an earlier call */
static _Thread_local bool in_two_steps;
static _Thread_local char message[sizeof(((tutti_error *)0)->message)];

/* Returns 1 if the result is wrong. */
static int run_noted(struct tti_engine *e, int lane, const struct reference_call *c)
{
    struct prepared_call p;
    tutti_error error;
    call_begin(&p, c, e->rank, lane);
    const bool halves = in_two_steps && tti_engine_start(e, &p.op);
    ended = halves ? tti_engine_finish(e, &p.op, &error) : tti_engine_run(e, &p.op, &error);
    snprintf(message, sizeof(message), "%s", ended == TUTTI_OK ? "" : error.message);
    late_mismatch = ended == TUTTI_MISMATCH && strstr(message, "earlier call") != NULL;
    if (ended == TUTTI_MISMATCH && !late_mismatch) {
        call_drop(&p);
        return 0;
    }
    return call_end(&p, c, e->rank, late_mismatch ? TUTTI_OK : ended, &error);
}

static int complain(const struct tti_engine *e, int lane, const struct reference_call *c, int round, const char *what)
{
    fprintf(stderr, "round %d, lane %d, rank %d of %d, %s root %d count %zu: %s; it ended %s %s\n", round, lane,
            e->rank, e->size, tutti_operation_name(c->kind), c->root, c->count, what, tutti_status_name(ended),
            message);
    return 1;
}

/* Returns how many calls of the rank returned MISMATCH, or 1000 and more on a fault. */
static int make_wrong_call(struct tti_engine *e, int lane, uint64_t chance, int round, bool *differ)
{
    const struct reference_call c = wrong_call(e->size, chance, e->rank);
    bool at_once = false;
    bool any = false;
    for (int r = 0; r < e->size; r++) {
        const struct reference_call other = wrong_call(e->size, chance, r);
        const bool is_same = same(&c, &other);
        any = any || !is_same;
        at_once = at_once || (!is_same && waits_for(&c, e->rank, r));
    }
    *differ = *differ || any;
    const int bad = run_noted(e, lane, &c);
    if (ended != TUTTI_OK && ended != TUTTI_MISMATCH) {
        return 1000 * complain(e, lane, &c, round, "neither OK nor MISMATCH");
    }
    if (bad) {
        return 1000 * complain(e, lane, &c, round, "a wrong result");
    }
    if (at_once && (ended != TUTTI_MISMATCH || late_mismatch)) {
        return 1000 * complain(e, lane, &c, round, "it waited for one that called something else");
    }
    return ended == TUTTI_MISMATCH;
}

static int make_right_call(struct tti_engine *e, int lane, const struct reference_call *c, int round)
{
    if (run_noted(e, lane, c) != 0 || (ended != TUTTI_OK && !late_mismatch)) {
        return 1000 * complain(e, lane, c, round, "a wrong result of a right call");
    }
    return late_mismatch;
}

static int one_round(struct tti_engine *e, int lane, int round)
{
    const uint64_t chance = number((uint64_t)round, (uint64_t)lane, (uint64_t)e->size);
    const int wrong_ones = (chance >> 3) % 4 == 0 ? 2 : 1;
    const struct reference_call barrier = some_call(e->size, TUTTI_OP_BARRIER, 0);
    struct reference_call last = barrier;
    bool differ = false;
    int noted = 0;
    in_two_steps = (chance >> 7 & 1) != 0;
    for (int i = 0; i < wrong_ones; i++) {
        noted += make_wrong_call(e, lane, number(chance, (uint64_t)i, 1), round, &differ);
    }
    for (uint64_t i = 0; i < (chance >> 12) % 3; i++) { /* in rooted calls only some ranks see it */
        const uint64_t c = number(chance, i, 2);
        last = some_call(e->size, kinds[(c >> 32) % ROOTED], c);
        noted += make_right_call(e, lane, &last, round);
    }
    noted += make_right_call(e, lane, &barrier, round);
    if (noted < differ || noted > (differ ? wrong_ones : 0)) {
        return complain(e, lane, &last, round, noted >= 1000 ? "see above" : "MISMATCH too often, or not at all");
    }
    for (uint64_t i = 0; i < 2; i++) {
        const struct reference_call c = right_call(e->size, number(chance, i, 3));
        if (make_right_call(e, lane, &c, round) != 0) {
            return complain(e, lane, &c, round, "the group does not work on");
        }
    }
    return 0;
}

struct side {
    struct tti_engine *engine;
    int lane;
    int failures;
};

static void *side_main(void *argument)
{
    struct side *s = argument;
    for (int round = 0; round < repetitions(ROUNDS) && s->failures == 0; round++) {
        s->failures = one_round(s->engine, s->lane, round);
    }
    return NULL;
}

static int on_both_lanes(struct cluster *c, int rank)
{
    struct side sides[LANES] = {{.engine = c->engines[rank], .lane = 0}, {.engine = c->engines[rank], .lane = 1}};
    pthread_t other;
    if (pthread_create(&other, NULL, side_main, &sides[1]) != 0) {
        abort();
    }
    side_main(&sides[0]);
    pthread_join(other, NULL);
    return sides[0].failures + sides[1].failures;
}

static void run_all(bool direct)
{
    for (int size = 2; size <= 5; size++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, size, LANES, WINDOW, (struct waiting){1000, 20000, 0}), 0);
        for (int r = 0; r < size; r++) {
            c.engines[r]->direct = direct;
            c.engines[r]->tuning.reduce_sliced = SLICED;
        }
        assert_int_equal(cluster_run(&c, on_both_lanes), 0);
        cluster_close(&c);
    }
}

static void staged(void **state)
{
    (void)state;
    run_all(false);
}

static void zero_copy(void **state)
{
    (void)state;
    run_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staged),
        cmocka_unit_test(zero_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
