/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=4 args=40,1 timeout=300 trees=release,debug,address,undefined */
/*
 * chaos RANKS [ROUNDS [SEED [MEGABYTES [kills]]]]: rounds with random points, places, disturbances, operations and
 * times, in groups of 2 to RANKS; the victim touches MEGABYTES of memory first. With `kills`, groups of RANKS in which
 * one is killed in or between calls, and now and then one is stopped. Prints what went wrong, and how long the other
 * ranks took to notice: from just before the end until they had returned, for the ranks that were in a call. That time
 * is a measurement, no promise: it contains delays of the scheduler and of a hypervisor. A control process only sleeps;
 * how late it wakes shows the machine's share. `make chaos N=...` runs it.
 *
 * Rounds in which ranks wait for a deadline come last, several at a time: they would take longer than all the others,
 * and are idle nearly all of it.
 */
#include <assert.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define TIMES_MOST 200000
#define AT_A_TIME  6 /* rounds that wait */

struct times {
    _Atomic uint32_t count;
    int64_t ns[TIMES_MOST];
};

/* Of all rounds, which several processes count. */
struct tally {
    _Atomic int rounds;
    _Atomic int hangs;
    _Atomic int wrong;
    _Atomic int others;
    _Atomic int disturbances[DISTURBANCE_COUNT];
    _Atomic int places[PLACE_COUNT]; /* at which something has happened */
    struct times returns;
    struct times late;  /* from the deadline on, where one was stopped */
    struct times looks; /* how late the control process woke after a kill */
};

struct plan {
    int32_t ranks;
    int rounds;
    uint64_t seed;
    size_t resident;
    bool kills;
    bool can_dump;
};

static uint64_t random_state;
static struct tally *tally;

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static uint64_t draw(void)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64, Steele et al. 2014 */
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int32_t below(int32_t n)
{
    return (int32_t)(draw() % (uint64_t)n);
}

/* In hundredths, in the order of the disturbances. */
static enum disturbance random_disturbance(const struct plan *plan)
{
    static const int32_t shares[] = {36, 6, 3, 6, 6, 4, 4, 6, 5, 5, 6, 8, 5};
    static_assert(sizeof(shares) / sizeof(shares[0]) == DISTURBANCE_COUNT, "one for each");
    int32_t where = below(100);
    if (plan->kills) {
        return where < 90 ? DISTURBANCE_KILL : DISTURBANCE_STOP;
    }
    for (enum disturbance disturbance = 0; disturbance < DISTURBANCE_COUNT; disturbance++) {
        if (where < shares[disturbance]) {
            return disturbance == DISTURBANCE_DUMP && !plan->can_dump ? DISTURBANCE_SEGV : disturbance;
        }
        where -= shares[disturbance];
    }
    return DISTURBANCE_KILL;
}

static enum point random_point(const struct plan *plan)
{
    const int32_t where = below(100);
    if (plan->kills) {
        return where < 20 ? POINT_BETWEEN : where < 40 ? POINT_WAITING : POINT_INSIDE;
    }
    return where < 2    ? POINT_BEFORE_INIT
           : where < 12 ? POINT_INIT
           : where < 30 ? POINT_BETWEEN
           : where < 45 ? POINT_WAITING
           : where < 95 ? POINT_INSIDE
                        : POINT_BEFORE_DESTROY;
}

static enum place random_place(enum disturbance disturbance)
{
    static const enum place scarce[] = {PLACE_MEMORY, PLACE_MAP, PLACE_COMMIT, PLACE_FILE, PLACE_THREAD};
    enum place place;
    if (disturbance == DISTURBANCE_NO_DESCRIPTORS || disturbance == DISTURBANCE_STORM ||
        disturbance == DISTURBANCE_CALLER_EXIT) {
        return PLACE_TIME;
    }
    do {
        place = disturbance == DISTURBANCE_NO_MEMORY ? scarce[below(sizeof(scarce) / sizeof(scarce[0]))]
                : below(2) == 0                      ? PLACE_TIME
                                                     : (enum place)below(PLACE_COUNT);
    } while (!place_is_seen(place));
    return place;
}

/* Works in which every rank waits for the victim, each under its own deadline. */
static bool all_wait(enum work work)
{
    return work == WORK_BARRIER || work == WORK_SMALL || work == WORK_LARGE_REDUCE || work == WORK_HEAP ||
           work == WORK_PARTS || work == WORK_ASYNC;
}

/* Sets the fields of a round that depend on its disturbance. */
static void adapt(struct round *r)
{
    if (r->disturbance == DISTURBANCE_STORM || r->disturbance == DISTURBANCE_CALLER_EXIT) {
        r->point = POINT_BEFORE_INIT; /* and from then on */
    } else if (is_resource_error(r->disturbance)) {
        r->point = r->point == POINT_INIT ? POINT_INIT : POINT_INSIDE;
    } else if (r->disturbance == DISTURBANCE_STOP) {
        r->point = r->point == POINT_INSIDE ? POINT_INSIDE : POINT_BETWEEN;
        r->work = all_wait(r->work) ? r->work : WORK_LARGE_REDUCE;
        r->call_ms = STOPPED_MS;
    }
    if (r->point != POINT_INIT && r->point != POINT_INSIDE) {
        r->place = PLACE_TIME;
    }
    if (happens_in_init(r) && (is_end(r->disturbance) || is_resource_error(r->disturbance))) {
        r->init_ms = r->point == POINT_INIT ? 5000 : 1500;
    }
}

static struct round random_round(const struct plan *plan)
{
    const int32_t size = plan->kills ? plan->ranks : 2 + below(plan->ranks - 1);
    struct round r = {.size = size, .init_ms = LONG_MS, .call_ms = LONG_MS, .resident = plan->resident};
    r.victim = below(r.size);
    r.work = (enum work)below(WORK_COUNT);
    r.calls = below(6);
    r.delay_us = 1 << below(15);
    r.delay_us += below(r.delay_us);
    r.pause_us = r.delay_us * 4;
    r.occurrence = 1 << below(5);
    r.occurrence += below(r.occurrence) - 1;
    r.occurrence += r.occurrence == 0;
    r.point = random_point(plan);
    r.disturbance = random_disturbance(plan);
    r.place = plan->kills ? PLACE_TIME : random_place(r.disturbance);
    adapt(&r);
    return r;
}

/* For a deadline. */
static bool waits(const struct round *r)
{
    return r->disturbance == DISTURBANCE_STOP ||
           (happens_in_init(r) && (is_end(r->disturbance) || is_resource_error(r->disturbance)));
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static void note_time(struct times *t, int64_t ns)
{
    const uint32_t at = atomic_fetch_add(&t->count, 1);
    if (at < TIMES_MOST) {
        t->ns[at] = ns;
    }
}

static void note_times(const struct round_state *s)
{
    if (s->round.disturbance != DISTURBANCE_STOP && s->control_late_ns > 0) {
        note_time(&tally->looks, s->control_late_ns);
    }
    for (int32_t i = 0; i < s->round.size; i++) {
        const struct seen *own = &s->seen[i];
        if (!has_waited(s, i)) {
            continue;
        }
        if (s->round.disturbance == DISTURBANCE_STOP) {
            note_time(&tally->late, own->returned_ns - own->began_ns - (int64_t)s->round.call_ms * 1000000);
        } else {
            note_time(&tally->returns, own->returned_ns - s->happened_ns);
        }
    }
}

static void count(const struct round_state *s, int number, bool well, const char *text)
{
    const struct round *r = &s->round;
    bool bad = false;
    for (int32_t k = 0; k < r->size; k++) {
        bad = bad || s->seen[k].status == TUTTI_INTERNAL;
    }
    atomic_fetch_add(&tally->rounds, 1);
    atomic_fetch_add(&tally->hangs, !well);
    atomic_fetch_add(&tally->wrong, bad);
    atomic_fetch_add(&tally->others, well && !bad && text[0]);
    atomic_fetch_add(&tally->disturbances[r->disturbance], 1);
    if (atomic_load(&s->reached)) {
        atomic_fetch_add(&tally->places[r->place], 1);
    }
    if (text[0] || bad) {
        printf("round %d: ", number);
        print_round(r, stdout);
        printf(": %s\n", text);
        fflush(stdout);
    }
    note_times(s);
}

/* Those that wait, or those that do not: every one of `workers` processes takes its share. */
static void run_share(const struct plan *plan, bool waiting, int worker, int workers)
{
    struct round_state *state = round_state_make();
    int found = 0;
    for (int i = 0; i < plan->rounds; i++) {
        random_state = plan->seed * 1000003 + (uint64_t)i; /* so that a round depends on nothing before it */
        const struct round r = random_round(plan);
        if (waits(&r) == waiting && found++ % workers == worker) {
            char text[COMPLAINT];
            const bool well = run_checked_round(state, &r, text);
            count(state, i, well, text);
        }
    }
    munmap(state, sizeof(*state));
}

static void run_waiting(const struct plan *plan)
{
    pid_t workers[AT_A_TIME];
    fflush(NULL);
    for (int i = 0; i < AT_A_TIME; i++) {
        workers[i] = fork();
        if (workers[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_share(plan, true, i, AT_A_TIME);
            _exit(0);
        }
    }
    for (int i = 0; i < AT_A_TIME; i++) {
        int status = 0;
        if (workers[i] < 0 || waitpid(workers[i], &status, 0) != workers[i] || status != 0) {
            printf("the process for rounds that wait has ended with status 0x%x\n", (unsigned)status);
            atomic_fetch_add(&tally->others, 1);
        }
    }
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Percentiles by nearest rank: with few times the highest percentiles are the maximum, and none is lower than the
 * measured time. */
static void print_times(struct times *t, const char *what)
{
    const size_t n = t->count < TIMES_MOST ? t->count : TIMES_MOST;
    static const size_t thousandths[] = {500, 990, 999, 1000};
    double ms[4];
    if (n == 0) {
        return;
    }
    qsort(t->ns, n, sizeof(t->ns[0]), compare);
    for (int i = 0; i < 4; i++) {
        ms[i] = (double)t->ns[(thousandths[i] * n + 999) / 1000 - 1] / 1e6;
    }
    printf("%s, ms: p50 %.3f, p99 %.3f, p99.9 %.3f, max %.3f (%zu)\n", what, ms[0], ms[1], ms[2], ms[3], n);
}

static void print_counts(const char *title, const _Atomic int *counts, const char *const *names, int first, int end)
{
    printf("%s:", title);
    for (int i = first; i < end; i++) {
        if (counts[i] > 0) {
            printf(" %s %d;", names[i], counts[i]);
        }
    }
    printf("\n");
}

/* Names in /dev/shm that could be ours. */
static int left_behind(void)
{
    int found = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        found += strstr(e->d_name, "tutti") != NULL;
    }
    if (folder) {
        closedir(folder);
    }
    return found;
}

/* Core files go there, and nowhere else. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        unlinkat(dirfd(folder), e->d_name, 0);
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(path);
}

static bool read_plan(int argc, char **argv, struct plan *plan)
{
    *plan = (struct plan){.ranks = argc > 1 ? atoi(argv[1]) : 4,
                          .rounds = argc > 2 ? atoi(argv[2]) : 40,
                          .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)now_ns() % 1000000007,
                          .resident = argc > 4 ? (size_t)atoi(argv[4]) << 20 : 0,
                          .kills = argc > 5 && strcmp(argv[5], "kills") == 0,
                          .can_dump = no_core_files() == NULL};
    return plan->ranks >= 2 && plan->ranks <= RANKS_MOST && plan->rounds >= 1 && argc <= 6 && (argc < 6 || plan->kills);
}

int main(int argc, char **argv)
{
    struct plan plan;
    char folder[] = "/tmp/tutti-chaos-XXXXXX";
    if (!read_plan(argc, argv, &plan)) {
        fprintf(stderr, "usage: chaos RANKS [ROUNDS [SEED [MEGABYTES [kills]]]], with 2 to %d ranks\n", RANKS_MOST);
        return 2;
    }
    tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED || !mkdtemp(folder) || chdir(folder) != 0) {
        perror("chaos");
        return 1;
    }
    printf("chaos: %d rounds of %s%d ranks, seed %llu\n", plan.rounds, plan.kills ? "" : "up to ", plan.ranks,
           (unsigned long long)plan.seed);
    if (!plan.can_dump && !plan.kills) {
        printf("no core dumps: %s\n", no_core_files());
    }
    const int before = left_behind();
    run_share(&plan, false, 0, 1);
    run_waiting(&plan);
    const int left = left_behind() - before;
    remove_folder(folder);
    print_counts("disturbances", tally->disturbances, disturbance_names, 0, DISTURBANCE_COUNT);
    print_counts("at places", tally->places, place_names, 1, PLACE_COUNT);
    print_times(&tally->returns, "from the end of a rank to the return of those that waited");
    print_times(&tally->late, "from the deadline to the return of those that waited for one that was stopped");
    print_times(&tally->looks, "by which a control process's sleep of 0.3 ms took longer then");
    printf("%d rounds: %d hangs, %d wrong results, %d other faults, %d files left in /dev/shm\n", tally->rounds,
           tally->hangs, tally->wrong, tally->others, left > 0 ? left : 0);
    return tally->hangs + tally->wrong + tally->others + (left > 0) > 0 || tally->rounds != plan.rounds;
}
