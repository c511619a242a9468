/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's life: init, operations until one fails or all are done, destruction, and a check for leftovers. */
#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "faults/support/victim.h"

#define LANES 3

void pause_us(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&t, &t) != 0) {
    }
}

void fault(struct seen *s, const char *format, ...)
{
    const size_t used = strlen(s->faults);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->faults + used, sizeof(s->faults) - used, format, arguments);
    va_end(arguments);
    strncat(s->faults, "; ", sizeof(s->faults) - strlen(s->faults) - 1);
}

/* ---- leftovers --------------------------------------------------------------------------------------------------- */

#define MAPPINGS "/proc/thread-self/maps"

int entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder)) {
        count++;
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

int settles(const char *path, int wanted)
{
    const int64_t until = now_ns() + (int64_t)20 * 1000000000;
    while (entries(path) > wanted && now_ns() < until) {
        pause_us(1000);
    }
    return entries(path);
}

int mappings(void)
{
    int count = 0;
    char line[1024];
    FILE *maps = fopen(MAPPINGS, "r");
    while (maps && fgets(line, sizeof(line), maps)) {
        count += strstr(line, "memfd:tutti-") != NULL;
    }
    if (maps) {
        fclose(maps);
    }
    return count;
}

struct resources {
    int descriptors;
    int threads;
};

static struct resources resources_now(void)
{
    return (struct resources){.descriptors = entries(DESCRIPTORS), .threads = entries(THREADS)};
}

static void record_descriptors(struct seen *own)
{
    for (int fd = STDERR_FILENO + 1; fd < 4096; fd++) {
        char link[40];
        char target[100];
        snprintf(link, sizeof(link), DESCRIPTORS "/%d", fd);
        const ssize_t length = readlink(link, target, sizeof(target) - 1);
        if (length > 0) {
            fault(own, "%d is %.*s", fd, (int)length, target);
        }
    }
}

static void check_leaks(const struct round_state *s, struct seen *own, struct resources before)
{
    const bool helped = own == &s->seen[s->round.victim] && is_end(s->round.disturbance); /* by threads of the test */
    if (s->round.disturbance != DISTURBANCE_STOP && !helped && settles(THREADS, before.threads) > before.threads) {
        fault(own, "%d threads, %d before", entries(THREADS), before.threads);
    }
    /* a rank that served a store keeps its server's eventfd until the next server starts or the process ends; the
     * memory of a heap is handed over in a store of its own */
    const int kept = before.descriptors + (s->round.work == WORK_HEAP ? 2 : 1);
    if (s->round.disturbance != DISTURBANCE_STOP && settles(DESCRIPTORS, kept) > kept) {
        fault(own, "%d descriptors, %d before", entries(DESCRIPTORS), before.descriptors);
        record_descriptors(own);
    }
    if (mappings() != 0) {
        fault(own, "%d segments still mapped", mappings());
    }
}

/* ---- the rank ---------------------------------------------------------------------------------------------------- */

static void await_happening(const struct round_state *s)
{
    while (!atomic_load(&s->happened)) {
        pause_us(500);
    }
}

static void repeat(struct round_state *s, const struct ground *ground, int32_t rank)
{
    const struct round *r = &s->round;
    struct seen *own = &s->seen[rank];
    const bool victim = rank == r->victim;
    const bool apart = victim && r->disturbance == DISTURBANCE_CALLER_EXIT;
    const int32_t most = r->point == POINT_BEFORE_DESTROY ? r->calls
                         : is_end(r->disturbance)         ? INT32_MAX
                                                          : r->calls + 1 + AFTERWARDS;
    for (int32_t step = 1; own->status == TUTTI_OK && step <= most; step++) {
        const bool here = !happens_in_init(r) && r->point != POINT_BEFORE_DESTROY && step == r->calls + 1;
        if (victim && here) {
            victim_begin(s);
        }
        if (!victim && here && r->point == POINT_WAITING) {
            await_happening(s);
        }
        own->began_ns = now_ns();
        atomic_store(&own->at, step);
        own->status = operate(ground, step, apart, &own->error);
        own->returned_ns = now_ns();
        if (victim && here) {
            victim_end(s);
        }
    }
    if (own->status != TUTTI_OK) {
        tutti_error error;
        own->next = operate(ground, 1, apart, &error);
    }
}

static void use_group(struct round_state *s, tutti_group *g, int32_t rank)
{
    struct seen *own = &s->seen[rank];
    struct ground ground;
    tutti_error error;
    own->status = ground_open(&ground, g, &s->round, &own->error);
    repeat(s, &ground, rank);
    if (rank == s->round.victim && s->round.point == POINT_BEFORE_DESTROY) {
        victim_begin(s);
    }
    if (tutti_group_destroy(g, &error) != TUTTI_OK) {
        fault(own, "destroy: %s", error.message);
    }
}

static _Noreturn void live(struct round_state *s, int32_t rank)
{
    const struct round *r = &s->round;
    struct seen *own = &s->seen[rank];
    const bool victim = rank == r->victim;
    if (victim) {
        victim_prepare(s);
    }
    const struct resources before = resources_now();
    if (victim && happens_in_init(r)) {
        victim_begin(s);
    }
    tutti_group *g = NULL;
    own->began_ns = now_ns();
    atomic_store(&own->at, -1);
    own->init = tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = r->size, .store = s->store,
                                        .lanes = LANES, .timeout_ms = r->init_ms),
                           &g, &own->error);
    own->returned_ns = now_ns();
    if (victim && happens_in_init(r)) {
        victim_end(s);
    }
    if (own->init == TUTTI_OK) {
        use_group(s, g, rank);
    }
    tutti_finalize(NULL);
    if (victim) {
        victim_calm(s);
    }
    check_leaks(s, own, before);
    atomic_store(&own->finished, 1);
    _exit(0);
}

struct lifetime {
    struct round_state *state;
    int32_t rank;
};

static void *live_in_thread(void *argument)
{
    const struct lifetime *l = argument;
    live(l->state, l->rank);
}

void be_rank(struct round_state *s, int32_t rank)
{
    static struct lifetime l;
    l = (struct lifetime){s, rank};
    if (rank == s->round.victim && s->round.disturbance == DISTURBANCE_MAIN_EXIT) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, live_in_thread, &l) != 0) {
            abort();
        }
        pthread_detach(thread);
        victim_await();
    }
    live(s, rank);
}
