/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_run_threads: a group of threads in one call. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "base/error.h"

#define RANKS_MAX 1024

/* Ranks start only when all threads exist; else the started ones would wait for the missing ones. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { GATE_CLOSED, GATE_OPEN, GATE_CANCELLED } state;
};

struct rank_thread {
    pthread_t thread;
    struct gate *gate;
    int32_t rank;
    int32_t ranks;
    const char *store;
    tutti_rank_function function;
    void *user;
    tutti_status status;
    tutti_error error;
};

static bool gate_pass(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->state == GATE_CLOSED) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    bool open = gate->state == GATE_OPEN;
    pthread_mutex_unlock(&gate->lock);
    return open;
}

static void gate_set(struct gate *gate, bool open)
{
    pthread_mutex_lock(&gate->lock);
    gate->state = open ? GATE_OPEN : GATE_CANCELLED;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void *run_rank(void *argument)
{
    struct rank_thread *t = argument;
    if (!gate_pass(t->gate)) {
        return NULL;
    }
    tutti_config config;
    tutti_config_init(&config);
    config.rank = t->rank;
    config.world_size = t->ranks;
    config.backend = "local";
    config.store = t->store;
    tutti_group *group = NULL;
    t->status = tutti_init(&config, &group, &t->error);
    if (t->status == TUTTI_OK) {
        t->status = t->function(group, t->user);
        if (t->status != TUTTI_OK) {
            tti_error_set(&t->error, t->status, "the function of rank %d returned %s", t->rank,
                          tutti_status_name(t->status));
        }
        tutti_group_destroy(group, NULL); /* BAD_STATE if the function has destroyed it */
    }
    t->error.rank = t->rank;
    return NULL;
}

tutti_status tutti_run_threads(int32_t ranks, tutti_rank_function function, void *user, tutti_error *error)
{
    if (ranks < 1 || ranks > RANKS_MAX || !function) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "run_threads: ranks is %d (1 to %d are allowed)%s", ranks,
                             RANKS_MAX, function ? "" : " and the function is NULL");
    }
    struct rank_thread *threads = calloc((size_t)ranks, sizeof(*threads));
    if (!threads) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "run_threads: no memory for %d threads", ranks);
    }
    static _Atomic unsigned serial; /* relaxed: only unique */
    char store[64];
    snprintf(store, sizeof(store), "memory:threads-%d-%u", (int)getpid(),
             atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    struct gate gate = {.state = GATE_CLOSED};
    pthread_mutex_init(&gate.lock, NULL);
    pthread_cond_init(&gate.changed, NULL);
    int32_t started = 0;
    int failed = 0;
    for (; started < ranks && failed == 0; started += failed == 0) {
        struct rank_thread *t = &threads[started];
        *t = (struct rank_thread){
            .gate = &gate, .rank = started, .ranks = ranks, .store = store, .function = function, .user = user};
        failed = pthread_create(&t->thread, NULL, run_rank, t);
    }
    gate_set(&gate, failed == 0);
    tutti_status status = TUTTI_OK;
    tti_error_clear(error);
    for (int32_t r = 0; r < started; r++) {
        pthread_join(threads[r].thread, NULL);
        if (status == TUTTI_OK && threads[r].status != TUTTI_OK) {
            status = threads[r].status;
            if (error) {
                *error = threads[r].error;
            }
        }
    }
    if (failed != 0) {
        status = tti_error_system(error, failed, "run_threads: cannot start thread %d of %d", started + 1, ranks);
    }
    pthread_cond_destroy(&gate.changed);
    pthread_mutex_destroy(&gate.lock);
    free(threads);
    return status;
}
