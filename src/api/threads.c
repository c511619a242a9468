/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti_run_threads: a group of threads in one call. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "base/error.h"

#define RANKS_MAX 1024

struct rank_thread {
    pthread_t thread;
    int32_t rank;
    int32_t ranks;
    const char *store;
    tutti_rank_function function;
    void *user;
    tutti_status status;
    tutti_error error;
};

static void *run_rank(void *argument)
{
    struct rank_thread *t = argument;
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
        tutti_group_destroy(group, NULL); /* BAD_STATE if the function did it */
    }
    t->error.rank = t->rank;
    return NULL;
}

tutti_status tutti_run_threads(int32_t ranks, tutti_rank_function function, void *user, tutti_error *error)
{
    if (ranks < 1 || ranks > RANKS_MAX || !function) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "run_threads: ranks is %d (1 to %d are allowed)%s", ranks, RANKS_MAX,
                             function ? "" : " and the function is NULL");
    }
    struct rank_thread *threads = calloc((size_t)ranks, sizeof(*threads));
    if (!threads) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "run_threads: no memory for %d threads", ranks);
    }
    static _Atomic unsigned serial; /* relaxed: only has to differ */
    char store[64];
    snprintf(store, sizeof(store), "memory:threads-%d-%u", (int)getpid(),
             atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    int32_t started = 0;
    int failed = 0;
    for (; started < ranks && failed == 0; started += failed == 0) {
        struct rank_thread *t = &threads[started];
        *t = (struct rank_thread){.rank = started, .ranks = ranks, .store = store, .function = function, .user = user};
        failed = pthread_create(&t->thread, NULL, run_rank, t);
    }
    /* The ranks that did start wait for the missing ones until their deadline, and name them. */
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
    free(threads);
    return status;
}
