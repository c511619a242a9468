/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *     checks_cost CHECKED.so UNCHECKED.so PAIRS
 *
 * An all_reduce of 8 bytes between two ranks, with the library, and with one that was built without polling for
 * failures (cmake/unchecked.cmake). The same two processes load both files, which are linked alike, each with a group
 * of its own over the same CPUs. They alternate, a block of calls each, and the order changes, so a
 * disturbance of the machine affects both. The result is the median of the differences within the pairs. It includes
 * the effect of where the linker has placed the code, which no repetition averages out.
 */
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number.h"

#define RANKS      2
#define CALLS      2000 /* of a block */
#define WARM_UP    5    /* pairs that do not count */
#define PAIRS_MOST 100000
#define GOAL_NS    10.0
#define GOAL       0.03

struct side {
    const char *path;
    tutti_group *group;
    __typeof__(tutti_init) *init;
    __typeof__(tutti_all_reduce) *all_reduce;
    __typeof__(tutti_group_destroy) *destroy;
};

struct cost {
    int pairs;
    int cpus[RANKS]; /* -1: wherever the system puts it */
    char store[2][64];
    _Atomic int failed;
    double ns[2][PAIRS_MOST]; /* of a call, by rank 0 */
};

/* ---- the ranks --------------------------------------------------------------------------------------------------- */

static bool complain(struct cost *cost, const char *what, const char *why)
{
    fprintf(stderr, "checks_cost: %s: %s\n", what, why);
    atomic_store(&cost->failed, 1);
    return false;
}

static bool open_side(struct cost *cost, struct side *s, int rank, const char *store)
{
    tutti_error e;
    void *file = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        return complain(cost, s->path, dlerror());
    }
    s->init = (__typeof__(tutti_init) *)(uintptr_t)dlsym(file, "tutti_init");
    s->all_reduce = (__typeof__(tutti_all_reduce) *)(uintptr_t)dlsym(file, "tutti_all_reduce");
    s->destroy = (__typeof__(tutti_group_destroy) *)(uintptr_t)dlsym(file, "tutti_group_destroy");
    if (!s->init || !s->all_reduce || !s->destroy) {
        return complain(cost, s->path, "it is not a library of Tutti");
    }
    const tutti_config config = {.size = sizeof(config),
                                 .backend = "shm",
                                 .rank = rank,
                                 .world_size = RANKS,
                                 .store = store,
                                 .timeout_ms = 60000};
    return s->init(&config, &s->group, &e) == TUTTI_OK || complain(cost, s->path, e.message);
}

/* Nanoseconds of one call in a block of them; negative if one has failed. */
static double run_block(struct cost *cost, const struct side *s, int calls)
{
    double in = 1;
    double out = 0;
    int64_t one = 1;
    DLTensor source = {.data = &in, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 64, 1}, .shape = &one};
    DLTensor result = source;
    result.data = &out;
    int64_t begun = 0;
    for (int i = -1; i < calls; i++) { /* the first brings the ranks together */
        if (s->all_reduce(s->group, &source, &result, TUTTI_SUM, NULL) != TUTTI_OK || out != RANKS) {
            complain(cost, s->path, "an all_reduce has failed");
            return -1;
        }
        begun = i < 0 ? tti_now_ns() : begun;
    }
    return (double)(tti_now_ns() - begun) / calls;
}

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0) {
        CPU_SET(cpu, &set);
        (void)sched_setaffinity(0, sizeof(set), &set);
    }
}

static int be_rank(struct cost *cost, struct side sides[2], int rank)
{
    bind_to(cost->cpus[rank]);
    for (int i = 0; i < 2; i++) {
        if (!open_side(cost, &sides[i], rank, cost->store[i])) {
            return 1;
        }
    }
    for (int pair = -WARM_UP; pair < cost->pairs; pair++) {
        for (int turn = 0; turn < 2; turn++) {
            const int which = (turn + pair) & 1;
            const double ns = run_block(cost, &sides[which], CALLS);
            if (ns < 0) {
                return 1;
            }
            if (pair >= 0 && rank == 0) {
                cost->ns[which][pair] = ns;
            }
        }
    }
    for (int i = 0; i < 2; i++) {
        sides[i].destroy(sides[i].group, NULL);
    }
    return 0;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. The interval holds the median with a probability of 95 %, whatever the distribution. */
static double median_of(double *values, int n, double *low, double *high)
{
    qsort(values, (size_t)n, sizeof(values[0]), compare);
    const double reach = 0.98 * sqrt(n);
    const int from = (int)fmax(0, floor(n / 2.0 - reach));
    const int to = (int)fmin(n - 1, ceil(n / 2.0 + reach));
    *low = values[from];
    *high = values[to];
    return values[n / 2];
}

static void print_cost(struct cost *cost)
{
    double *differences = calloc((size_t)cost->pairs, sizeof(*differences));
    double low;
    double high;
    if (!differences) {
        complain(cost, "the result", "no memory");
        return;
    }
    for (int i = 0; i < cost->pairs; i++) {
        differences[i] = cost->ns[0][i] - cost->ns[1][i];
    }
    const double with = median_of(cost->ns[0], cost->pairs, &low, &high);
    const double without = median_of(cost->ns[1], cost->pairs, &low, &high);
    const double more = median_of(differences, cost->pairs, &low, &high);
    const double limit = fmax(GOAL_NS, GOAL * without);
    if (cost->cpus[0] >= 0) {
        printf("ranks on CPUs %d and %d, ", cost->cpus[0], cost->cpus[1]);
    } else {
        printf("both ranks on one CPU, ");
    }
    printf("%d pairs of %d calls\n", cost->pairs, CALLS);
    printf("all_reduce of 8 bytes, 2 ranks: %.1f ns with checks, %.1f ns without\n", with, without);
    printf("checks cost: %.1f ns (95 %% between %.1f and %.1f), %.1f %%; allowed are %.1f ns (%s)\n", more, low, high,
           100 * more / without, limit, more <= limit ? "kept" : "NOT kept");
    free(differences);
}

/* The first two CPUs that this process may use. */
static void choose_cpus(struct cost *cost)
{
    cpu_set_t set;
    int found = 0;
    cost->cpus[0] = cost->cpus[1] = -1;
    if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) < RANKS) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE && found < RANKS; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cost->cpus[found++] = cpu;
        }
    }
}

static int run(struct cost *cost, struct side sides[2])
{
    pid_t ranks[RANKS];
    int failed = 0;
    fflush(NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = fork();
        if (ranks[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(be_rank(cost, sides, rank));
        }
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status = 1;
        failed |= ranks[rank] < 0 || waitpid(ranks[rank], &status, 0) < 0 || status != 0;
    }
    if (!failed) {
        print_cost(cost);
    }
    return failed || atomic_load(&cost->failed);
}

int main(int argc, char **argv)
{
    struct cost *cost =
        mmap(NULL, sizeof(*cost), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int64_t pairs = 0;
    if (argc != 4 || !tti_parse_integer(argv[3], 10, PAIRS_MOST, &pairs)) {
        fprintf(stderr, "Usage: checks_cost CHECKED.so UNCHECKED.so PAIRS (10 to %d)\n", PAIRS_MOST);
        return 2;
    }
    if (cost == MAP_FAILED) {
        perror("checks_cost");
        return 1;
    }
    cost->pairs = (int)pairs;
    struct side sides[2] = {{.path = argv[1]}, {.path = argv[2]}};
    for (int i = 0; i < 2; i++) {
        snprintf(cost->store[i], sizeof(cost->store[i]), "unix:checks-%d-%d", (int)getpid(), i);
    }
    choose_cpus(cost);
    return run(cost, sides);
}
