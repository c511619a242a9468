/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=4 args=24,1 timeout=300 trees=release,debug,address,undefined */
/*
 * chaos RANKS [ROUNDS [SEED [MEGABYTES]]]: rounds with random points, ends, operations and times, in groups of 2 to RANKS;
 * the victim has so much memory more. Counts what went wrong, and tells how long the others took to notice: from the
 * moment before the end until they had returned, of those that were in a call by then. That is a figure, no promise:
 * it contains the scheduler's turns. `make chaos N=...` runs it.
 */
#include "judge.h"

#define TIMES_MOST 1000000

static uint64_t state;

static uint64_t draw(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64, Steele et al. 2014 */
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int32_t below(int32_t n)
{
    return (int32_t)(draw() % (uint64_t)n);
}

static struct round random_round(int32_t ranks, size_t resident)
{
    struct round r = {.size = 2 + below(ranks - 1), .init_ms = CALL_MS, .call_ms = CALL_MS, .resident = resident};
    r.victim = below(r.size);
    r.work = (enum work)below(WORK_COUNT);
    r.calls = below(6);
    r.delay_us = 1 << below(15);
    r.delay_us += below(r.delay_us);
    const int32_t where = below(100); /* rounds that can only end by a deadline are rare: they take their time */
    r.point = where < 2    ? POINT_BEFORE_INIT
              : where < 12 ? POINT_INIT
              : where < 30 ? POINT_BETWEEN
              : where < 50 ? POINT_WAITING
              : where < 95 ? POINT_INSIDE
                           : POINT_BEFORE_DESTROY;
    const int32_t how = below(100);
    r.end = how < 60   ? END_KILL
            : how < 70 ? END_SEGV
            : how < 78 ? END_QUICK_EXIT
            : how < 86 ? END_EXIT
            : how < 94 ? END_EXEC
                       : END_STOP;
    if (r.end == END_STOP) {
        const bool stoppable = r.work != WORK_BROADCAST && r.work != WORK_MESSAGES; /* where all wait for all */
        r.point = POINT_BETWEEN;
        r.work = stoppable ? r.work : WORK_LARGE_REDUCE;
        r.call_ms = 1500;
    }
    if (ends_in_init(&r)) {
        r.init_ms = r.point == POINT_INIT ? 5000 : 1500;
    }
    return r;
}

static int64_t times[TIMES_MOST];
static size_t timed;

static void note_times(const struct stage *s)
{
    for (int32_t i = 0; i < s->round.size; i++) {
        const struct seen *own = &s->seen[i];
        const bool waited = own->init == TUTTI_OK && own->status != TUTTI_OK && own->began_ns < s->ended_ns;
        if (i != s->round.victim && waited && s->round.end != END_STOP && timed < TIMES_MOST) {
            times[timed++] = own->returned_ns - s->ended_ns;
        }
    }
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double share(double part)
{
    return (double)times[(size_t)(part * (double)(timed - 1))] / 1e6;
}

/* Names in /dev/shm that could be ours. */
static int left_behind(void)
{
    int count = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        count += strstr(e->d_name, "tutti") != NULL;
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

int main(int argc, char **argv)
{
    const int32_t ranks = argc > 1 ? atoi(argv[1]) : 4;
    const int rounds = argc > 2 ? atoi(argv[2]) : 40;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)now_ns() % 1000000007;
    const size_t resident = argc > 4 ? (size_t)atoi(argv[4]) << 20 : 0;
    if (ranks < 2 || ranks > RANKS_MOST || rounds < 1) {
        fprintf(stderr, "usage: chaos RANKS [ROUNDS [SEED [MEGABYTES]]], with 2 to %d ranks\n", RANKS_MOST);
        return 2;
    }
    printf("chaos: %d rounds of up to %d ranks, seed %llu\n", rounds, ranks, (unsigned long long)seed);
    struct stage *stage = stage_make();
    const int before = left_behind();
    int hangs = 0;
    int wrong = 0;
    int others = 0;
    for (int i = 0; i < rounds; i++) {
        state = seed * 1000003 + (uint64_t)i; /* so that a round depends on nothing before it */
        const struct round r = random_round(ranks, resident);
        const bool well = run_round(stage, &r);
        char text[COMPLAINT];
        bool bad = false;
        judge(stage, well, text);
        for (int32_t k = 0; k < r.size; k++) {
            bad = bad || stage->seen[k].status == TUTTI_INTERNAL;
        }
        hangs += !well;
        wrong += bad;
        others += well && !bad && text[0];
        if (text[0] || bad) {
            printf("round %d: ", i);
            tell_round(&r, stdout);
            printf(": %s\n", text);
            fflush(stdout);
        }
        note_times(stage);
    }
    qsort(times, timed, sizeof(times[0]), compare);
    if (timed > 0) {
        printf(
            "from the end of a rank to the return of those that waited, ms: p50 %.3f, p99 %.3f, p99.9 %.3f, max %.3f "
            "(%zu returns)\n",
            share(0.5), share(0.99), share(0.999), share(1), timed);
    }
    const int left = left_behind() - before;
    printf("%d rounds: %d hangs, %d wrong results, %d other faults, %d files left in /dev/shm\n", rounds, hangs, wrong,
           others, left > 0 ? left : 0);
    return hangs + wrong + others > 0;
}
