/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heaps without an engine. Threads play the ranks, each with views of its own. A barrier and a table replace the
 * engine's exchange. If an expectation of a rank fails, it is counted and the thread continues.
 */
#ifndef TESTS_UNIT_BACKENDS_SHM_HEAP_HEAP_SUPPORT_H
#define TESTS_UNIT_BACKENDS_SHM_HEAP_HEAP_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/shm/heap/alloc.h"
#include "backends/shm/heap/heap.h"
#include "backends/shm/heap/register.h"
#include "base/clock.h"
#include "engine/memory/heap.h"
#include "time_limits.h"

#define MOST_RANKS 4

static _Atomic int failures;

static inline void expect_that(int ok, int line, const char *text, const tutti_error *e)
{
    if (!ok) {
        fprintf(stderr, "line %d: %s: %s\n", line, text, e ? e->message : "");
        atomic_fetch_add(&failures, 1);
    }
}

#define EXPECT(condition)   expect_that((condition), __LINE__, #condition, NULL)
#define EXPECT_E(condition) expect_that((condition), __LINE__, #condition, &x->error)

/* The barrier and the records of one group. */
struct rendezvous {
    pthread_barrier_t barrier;
    int size;
    unsigned char slots[MOST_RANKS][1024];
};

/* One rank in one group. */
struct rank {
    struct rendezvous *rendezvous;
    int rank;
    struct tti_heap_view *view;
    tutti_exchange exchange;
    tutti_error error;
    const char *capacity;
};

static inline tutti_status gather(void *self, const void *mine, size_t bytes, void *all, tutti_error *error)
{
    struct rank *x = self;
    struct rendezvous *m = x->rendezvous;
    (void)error;
    memcpy(m->slots[x->rank], mine, bytes);
    pthread_barrier_wait(&m->barrier);
    for (int r = 0; r < m->size; r++) {
        memcpy((unsigned char *)all + (size_t)r * bytes, m->slots[r], bytes);
    }
    pthread_barrier_wait(&m->barrier);
    return TUTTI_OK;
}

static inline const char *setting(const void *settings, const char *key)
{
    const struct rank *x = settings;
    return strcmp(key, "engine.heap_capacity") == 0 && x->capacity ? x->capacity : "67108864";
}

static inline void rendezvous_init(struct rendezvous *m, int size)
{
    pthread_barrier_init(&m->barrier, NULL, (unsigned)size);
    m->size = size;
}

/* Opens the view of `rank` in a group of these ranks of the world. */
static inline void rank_open(struct rank *x, struct rendezvous *m, int rank, const int32_t *globals,
                             struct tti_heap_view *parent)
{
    x->rendezvous = m;
    x->rank = rank;
    x->exchange = (tutti_exchange){.size = sizeof(tutti_exchange),
                                   .self = x,
                                   .gather = gather,
                                   .deadline_ns = tti_deadline_ns(tti_now_ns(), LONG_MS)};
    tutti_open_info info = {.size = sizeof(info),
                            .rank = rank,
                            .world_size = m->size,
                            .timeout_ms = LONG_MS,
                            .call_timeout_ms = LONG_MS,
                            .global_ranks = globals,
                            .setting = setting,
                            .settings = x};
    EXPECT_E(tti_heap_view_open(&info, parent, &x->view, &x->error) == TUTTI_OK);
}

static inline void rank_barrier(struct rank *x)
{
    pthread_barrier_wait(&x->rendezvous->barrier);
}

/* Exchanges the names of `memory` among the ranks. */
static inline void exchange_names(struct rank *x, const void *memory, size_t bytes, uint64_t names[MOST_RANKS])
{
    uint64_t own = tti_heap_name(tti_heap_view_table(x->view), memory, bytes);
    gather(x, &own, sizeof(own), names, NULL);
}

static inline unsigned char *address(struct rank *x, int rank, uint64_t name, size_t bytes)
{
    return tti_heap_address(tti_heap_view_table(x->view), rank, name, bytes);
}

/* Each rank writes its number into its memory, and all ranks see it. Then each writes into a neighbour's memory, whose
 * owner sees that. */
static inline void check_shared(struct rank *x, unsigned char *memory, size_t bytes, int line)
{
    uint64_t names[MOST_RANKS];
    memset(memory, 'a' + x->rank, bytes);
    exchange_names(x, memory, bytes, names);
    for (int r = 0; r < x->rendezvous->size; r++) {
        unsigned char *seen = names[r] ? address(x, r, names[r], bytes) : NULL;
        expect_that(seen != NULL, line, "the name is known", NULL);
        expect_that(seen && seen[0] == 'a' + r && seen[bytes - 1] == 'a' + r, line, "the content is seen", NULL);
    }
    rank_barrier(x);
    int next = (x->rank + 1) % x->rendezvous->size;
    unsigned char *other = names[next] ? address(x, next, names[next], bytes) : NULL;
    if (other) {
        other[bytes / 2] = (unsigned char)('A' + x->rank);
    }
    rank_barrier(x);
    int previous = (x->rank + x->rendezvous->size - 1) % x->rendezvous->size;
    expect_that(memory[bytes / 2] == 'A' + previous, line, "what another rank has written is there", NULL);
    rank_barrier(x);
}

#define CHECK_SHARED(x, memory, bytes) check_shared((x), (memory), (bytes), __LINE__)

struct runner {
    void (*function)(struct rank *x);
    struct rendezvous *world;
    int rank;
};

static inline void *run_rank(void *argument)
{
    static const int32_t globals[MOST_RANKS] = {0, 1, 2, 3};
    struct runner *r = argument;
    struct rank x = {0};
    rank_open(&x, r->world, r->rank, globals, NULL);
    r->function(&x);
    rank_barrier(&x);
    tti_heap_view_close(x.view);
    return NULL;
}

/* Runs the function on so many ranks; returns how many expectations have failed. */
static inline int run_ranks(int size, void (*function)(struct rank *x))
{
    static struct rendezvous world;
    pthread_t threads[MOST_RANKS];
    struct runner runners[MOST_RANKS];
    int before = failures;
    rendezvous_init(&world, size);
    for (int i = 0; i < size; i++) {
        runners[i] = (struct runner){.function = function, .world = &world, .rank = i};
        pthread_create(&threads[i], NULL, run_rank, &runners[i]);
    }
    for (int i = 0; i < size; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&world.barrier);
    return failures - before;
}

#endif
