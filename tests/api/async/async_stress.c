/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many threads, many lanes, many operations under way: 2 ranks of 8 threads each. TUTTI_STRESS_OPS, or the first
 * argument, is the number of operations per thread; TUTTI_STRESS_SEED, or the second one, makes it another run.
 *
 *   own lanes     thread i uses lane i: any collective and messages, asynchronous or not, waited for in every way
 *                 and in any order, some handles released at once; each result is compared. An operation must be
 *                 cancelled on both ranks or on none, if and only if a cancel succeeded, and name the lowest of those
 *                 ranks.
 *   shared lanes  all threads use all lanes at once, so it is chance which operations of the two ranks are matched.
 *                 Every lane has one kind of operation, and sums show whether each was delivered exactly once.
 *
 * tutti-test: timeout=240
 */
#include <pthread.h>

#include "stress_operation.h"

enum { THREADS = 8, LANES = 8, DEPTH = 6 };

static int operations = 500;
static uint64_t seed = 1;

/* Random choices that the other rank does not share: ways, orders, cancels. */
static uint64_t own_draw(int rank, uint64_t key, uint64_t counter)
{
    return mix(mix(key, 77 + (uint64_t)rank), counter);
}

/* ---- a thread on a lane of its own ---- */

/* A rank's results of an operation; compared when all ranks have ended. */
struct seen {
    bool cancelled;
    bool my_cancel;
    int32_t suspect; /* -2: unknown, because the handle was released */
};

static struct seen *seen[RANKS];

struct worker {
    pthread_t thread;
    tutti_group *group;
    int rank;
    int index;
    uint64_t key;
    struct operation *slots;
    bool used[DEPTH];
};

static struct seen *seen_by(const struct worker *w, int number)
{
    return &seen[w->rank][(size_t)w->index * (size_t)operations + (size_t)number];
}

static void land(struct worker *w, int slot)
{
    struct operation *o = &w->slots[slot];
    const uint64_t draw = own_draw(w->rank, w->key, 4 * (uint64_t)o->number);
    struct seen *s = seen_by(w, o->number);
    const bool blind = !o->work && o->expects_call;
    if (o->work && o->cancellable && draw % 16 == 0) {
        s->my_cancel = cancel(o) || s->my_cancel; /* late: most have begun */
    }
    end(o, draw >> 8);
    s->cancelled = o->status == TUTTI_CANCELLED;
    s->suspect = blind ? -2 : o->error.suspect;
    w->used[slot] = false;
}

static void take_off(struct worker *w, struct operation *o, int number)
{
    const uint64_t draw = mix(w->key, (uint64_t)number); /* the same on both ranks */
    const uint64_t own = own_draw(w->rank, w->key, 4 * (uint64_t)number + 1);
    static const int64_t masks[8] = {7, 7, 7, 63, 63, 1023, 1023, 16383};
    const enum kind kind = (enum kind)(draw % KINDS);
    const int64_t count = (int64_t)(draw >> 16) & masks[draw >> 12 & 7];
    prepare(o, kind, w->rank, kind == BARRIER ? 0 : count < MOST / RANKS ? count : MOST / RANKS, draw, number);
    o->tag = w->index * operations + number;
    o->cancellable = o->cancellable && (draw >> 40) % 2 == 0;

    tutti_call call;
    tutti_call_init(&call);
    call.lane = w->index;
    call.timeout_ms = LONG_MS;
    call.flags = o->cancellable ? TUTTI_CANCELLABLE : 0;
    call.error = &o->error;
    if (own % 8 == 0) {
        o->status = run(w->group, o, &call);
        return;
    }
    if (own >> 8 & 1) {
        o->expects_call = true;
        call.callback = recorded;
        call.user = o;
        call.flags |= own >> 32 & 1 ? TUTTI_CALLBACK_ANYWHERE : 0;
    }
    o->status = start(w->group, o, &call);
    if (o->status != TUTTI_OK) {
        o->expects_call = false; /* the error is reported at the start */
        return;
    }
    if (o->cancellable && own >> 16 & 1) {
        seen_by(w, number)->my_cancel = cancel(o);
    }
    if (o->expects_call && (own >> 24) % 4 == 0) {
        EXPECT_OK(tutti_work_release(o->work));
        o->work = NULL;
    }
}

static void *use_own_lane(void *argument)
{
    struct worker *w = argument;
    w->slots = make_operations(DEPTH);
    for (int i = 0; w->slots && i < operations; i++) {
        const int slot = (int)(own_draw(w->rank, w->key, 4 * (uint64_t)i + 2) % DEPTH);
        if (w->used[slot]) {
            land(w, slot);
        }
        take_off(w, &w->slots[slot], i);
        w->used[slot] = true;
    }
    for (int slot = 0; slot < DEPTH; slot++) {
        if (w->used[slot]) {
            land(w, slot);
        }
    }
    free_operations(w->slots, DEPTH);
    return NULL;
}

static void compare_seen(void)
{
    int cancelled = 0;
    for (int i = 0; i < THREADS * operations; i++) {
        const struct seen *a = &seen[0][i];
        const struct seen *b = &seen[1][i];
        const int lowest = a->my_cancel ? 0 : 1;
        EXPECT(a->cancelled == b->cancelled);
        EXPECT(a->cancelled == (a->my_cancel || b->my_cancel));
        if (a->cancelled) {
            cancelled++;
            EXPECT(a->suspect == lowest || a->suspect == -2);
            EXPECT(b->suspect == lowest || b->suspect == -2);
        }
    }
    printf("own lanes: %d operations, %d of them cancelled\n", THREADS * operations, cancelled);
    EXPECT(cancelled > 0 || operations < 100);
}

/* ---- all threads on all lanes ---- */

static const enum kind kind_of_lane[LANES] = {ALL_REDUCE,     ALL_REDUCE_IN_PLACE, ALL_GATHER, ALL_REDUCE,
                                              REDUCE_SCATTER, ALL_TO_ALL,          BARRIER,    ALL_REDUCE};
static const int64_t count_of_lane[LANES] = {1, 5, 4, 3000, 8, 3, 0, 60};

/* Relaxed: read when all threads have been joined. */
static _Atomic uint64_t taken_in[RANKS][LANES];
static _Atomic uint64_t given_out[RANKS][LANES];
static _Atomic uint64_t cancelled_in[RANKS][LANES];

static uint64_t sum_of(const uint64_t *values, int64_t count)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

static void settle(struct operation *o, int lane, uint64_t sum)
{
    if (o->work) {
        wait_by_draw(o, mix(o->key, 9));
    }
    if (o->status == TUTTI_OK) {
        atomic_fetch_add_explicit(&taken_in[o->rank][lane], sum, memory_order_relaxed);
        atomic_fetch_add_explicit(&given_out[o->rank][lane], sum_of(o->output, output_count(o)), memory_order_relaxed);
    } else if (o->status == TUTTI_CANCELLED) {
        atomic_fetch_add_explicit(&cancelled_in[o->rank][lane], 1, memory_order_relaxed);
    } else {
        complain(o, "an error: ", o->error.message);
    }
}

/* One operation on every lane, in an order of the thread's own; then the thread waits for all. A waiting thread has
 * started as many on each lane as on any other. So the rank with fewer of them never waits, and there is no deadlock.
 * For that reason, too, only the last one may be synchronous. */
static void one_round(struct worker *w, int round, struct operation *slots)
{
    const uint64_t own = own_draw(w->rank, w->key, (uint64_t)round);
    uint64_t sums[LANES];
    for (int i = 0; i < LANES; i++) {
        const int lane = (int)((uint64_t)i * (own % 4 * 2 + 1) + own / 4) & (LANES - 1);
        struct operation *o = &slots[lane];
        prepare(o, kind_of_lane[lane], w->rank, count_of_lane[lane], mix(own, 100 + (uint64_t)lane), round);
        sums[lane] = sum_of(o->kind == ALL_REDUCE_IN_PLACE ? o->output : o->input, input_count(o));
        const tutti_call *call = TUTTI_CALL(.lane = lane, .timeout_ms = LONG_MS, .error = &o->error);
        const bool synchronous = i == LANES - 1 && own >> 32 & 1;
        o->status = synchronous ? run(w->group, o, call) : start(w->group, o, call);
        if (o->work && mix(own, (uint64_t)lane) % 8 == 0) {
            cancel(o);
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        settle(&slots[lane], lane, sums[lane]);
    }
}

static void *use_all_lanes(void *argument)
{
    struct worker *w = argument;
    struct operation *slots = make_operations(LANES);
    for (int i = 0; slots && i < operations / LANES; i++) {
        one_round(w, i, slots);
    }
    free_operations(slots, LANES);
    return NULL;
}

static void compare_sums(void)
{
    uint64_t cancelled = 0;
    for (int lane = 0; lane < LANES; lane++) {
        const bool on_all_ranks = kind_of_lane[lane] != REDUCE_SCATTER && kind_of_lane[lane] != ALL_TO_ALL;
        const uint64_t in = taken_in[0][lane] + taken_in[1][lane];
        EXPECT(cancelled_in[0][lane] == cancelled_in[1][lane]);
        cancelled += cancelled_in[0][lane];
        if (kind_of_lane[lane] == BARRIER) {
            continue;
        }
        if (on_all_ranks) {
            EXPECT(given_out[0][lane] == in && given_out[1][lane] == in);
        } else {
            EXPECT(given_out[0][lane] + given_out[1][lane] == in);
        }
    }
    printf("shared lanes: %d operations, %llu of them cancelled\n", THREADS * (operations / LANES) * LANES,
           (unsigned long long)cancelled);
}

/* ---- ranks ---- */

static void run_workers(tutti_group *group, void *(*work)(void *), uint64_t salt)
{
    struct worker *workers = calloc(THREADS, sizeof(*workers));
    int started = 0;
    EXPECT(workers != NULL);
    for (; workers && started < THREADS; started++) {
        struct worker *w = &workers[started];
        w->group = group;
        w->rank = tutti_group_rank(group);
        w->index = started;
        w->key = mix(seed, salt + (uint64_t)started);
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            test_fail(__FILE__, __LINE__, "a thread cannot be started");
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    free(workers);
}

static tutti_status rank(tutti_group *world, void *user)
{
    static const int32_t both[RANKS] = {0, 1};
    tutti_group *group = NULL;
    tutti_error error;
    (void)user;
    EXPECT_OK(tutti_group_create(world, both, RANKS, TUTTI_CONFIG(.lanes = LANES), &group, &error));
    if (group) {
        run_workers(group, use_own_lane, 0);
        run_workers(group, use_all_lanes, 100);
        EXPECT_USABLE(group);
        EXPECT_OK(tutti_group_destroy(group, &error));
    }
    return TUTTI_OK;
}

static uint64_t setting(const char *argument, const char *variable, uint64_t otherwise)
{
    const char *text = argument ? argument : getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    operations = (int)setting(argc > 1 ? argv[1] : NULL, "TUTTI_STRESS_OPS", (uint64_t)operations);
    seed = setting(argc > 2 ? argv[2] : NULL, "TUTTI_STRESS_SEED", seed);
    printf("%d threads, %d lanes, %d operations each, seed %llu\n", THREADS, LANES, operations,
           (unsigned long long)seed);
    for (int r = 0; r < RANKS; r++) {
        seen[r] = calloc((size_t)THREADS * (size_t)operations, sizeof(struct seen));
        if (!seen[r]) {
            return 1;
        }
    }
    test_ranks(RANKS, rank);
    EXPECT(atomic_load_explicit(&complaints, memory_order_relaxed) == 0);
    if (test_result() == 0) {
        compare_seen();
        compare_sums();
    }
    free(seen[0]);
    free(seen[1]);
    return test_result();
}
