/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that returns from main while operations are pending: pending KIND EXITS STATUS [local]. KIND names the
 * operations; EXITS is "one" if rank 0 alone starts them, "all" if every rank does, and "waited" if the other ranks
 * then wait for rank 0. "destroy" before KIND, as in destroy-recv, destroys the group first. The program is the same
 * for all backends; with "local" the ranks are threads.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "time_limits.h"

enum { SMALL = 2, LARGE = 300000, RANKS = 3 };

static const char *kind;
static const char *exits;
static sem_t begun; /* by a rank of "local" */

static void expect(int holds, const char *what, const tutti_error *error)
{
    if (!holds) {
        fprintf(stderr, "FAILED: %s: %s: %s\n", what, tutti_status_name(error->status), error->message);
        _exit(99);
    }
}

/* Memory that lives as long as the process: pending operations need it. */
static DLTensor *tensor(int64_t count)
{
    struct kept {
        DLTensor tensor;
        int64_t count;
        struct kept *next;
        float values[];
    };
    static struct kept *_Atomic all;
    struct kept *k = calloc(1, sizeof(*k) + (size_t)count * sizeof(float));
    if (!k) {
        _exit(98);
    }
    k->count = count;
    k->tensor = tutti_tensor_1d(k->values, &k->count, TUTTI_F32);
    k->next = all;
    all = k;
    return &k->tensor;
}

/* A call of the application's in a thread of its own. */
static void *call_barrier(void *group)
{
    tutti_barrier(group, NULL);
    return NULL;
}

static void *call_recv(void *group)
{
    tutti_recv(group, tensor(SMALL), 1, 5, NULL, NULL);
    return NULL;
}

static void in_thread(void *(*call)(void *group), tutti_group *g)
{
    pthread_t thread;
    tutti_error none = {.status = TUTTI_INTERNAL};
    expect(pthread_create(&thread, NULL, call, g) == 0 && pthread_detach(thread) == 0, "a thread", &none);
}

static void start(tutti_group *g, const char *what)
{
    const int next = (tutti_group_rank(g) + 1) % tutti_group_size(g);
    tutti_work *work = NULL;
    tutti_error error = {.status = TUTTI_OK};
    const tutti_call *plain = TUTTI_CALL(.error = &error);
    const tutti_call *timed = TUTTI_CALL(.timeout_ms = LONG_MS, .error = &error);
    tutti_status status = TUTTI_OK;
    if (strcmp(what, "recv") == 0) {
        status = tutti_recv_async(g, tensor(SMALL), next, 1, plain, NULL, &work);
    } else if (strcmp(what, "recv_timed") == 0) {
        status = tutti_recv_async(g, tensor(LARGE), next, 2, timed, NULL, &work);
    } else if (strcmp(what, "send") == 0) {
        status = tutti_send_async(g, tensor(LARGE), next, 3, plain, &work);
    } else if (strcmp(what, "barrier") == 0) {
        status = tutti_barrier_async(g, plain, &work);
    } else if (strcmp(what, "barrier_timed") == 0) {
        status = tutti_barrier_async(g, timed, &work);
    } else if (strcmp(what, "all_reduce") == 0) {
        DLTensor *t = tensor(SMALL);
        status = tutti_all_reduce_async(g, t, t, TUTTI_SUM, plain, &work);
    } else if (strcmp(what, "all_reduce_large") == 0) {
        DLTensor *t = tensor(LARGE);
        status = tutti_all_reduce_async(g, t, t, TUTTI_SUM, timed, &work);
    } else if (strcmp(what, "batch") == 0) {
        status = tutti_batch_begin(g, &error);
        expect(status == TUTTI_OK, "batch_begin", &error);
        tutti_recv(g, tensor(LARGE), next, 4, plain, NULL);
        tutti_send(g, tensor(LARGE), next, 6, plain);
        status = tutti_batch_end_async(g, plain, &work);
    } else if (strcmp(what, "thread_barrier") == 0) {
        in_thread(call_barrier, g);
    } else if (strcmp(what, "thread_recv") == 0) {
        in_thread(call_recv, g);
    } else {
        fprintf(stderr, "there is no %s\n", what);
        _exit(97);
    }
    /* another rank may have ended already, which fails the group */
    expect(status == TUTTI_OK || status == TUTTI_REVOKED || status == TUTTI_PEER_LEFT, what, &error);
}

static tutti_status rank_of(tutti_group *world, void *unused)
{
    static const char *const several[] = {"recv", "recv_timed", "send", "batch", "all_reduce", NULL};
    const int rank = tutti_group_rank(world);
    tutti_group *g = NULL;
    tutti_error error;
    (void)unused;
    const char *what = kind;
    const int destroys = strncmp(what, "destroy-", 8) == 0;
    what += destroys ? 8 : 0;
    expect(tutti_group_split(world, 0, rank, NULL, &g, &error) == TUTTI_OK, "split", &error);
    expect(tutti_barrier(world, TUTTI_CALL(.error = &error)) == TUTTI_OK, "barrier", &error);
    if (rank == 0 || strcmp(exits, "all") == 0) {
        if (strcmp(what, "several") == 0) {
            for (const char *const *one = several; *one; one++) {
                start(g, *one);
            }
        } else {
            start(g, what);
        }
        /* half of the runs end with operations just begun, the other half with threads that wait in them */
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_nsec / 1000 % 2 == 0) {
            usleep(20000);
        }
        if (destroys) {
            const tutti_status status = tutti_group_destroy(g, &error);
            expect(status == TUTTI_OK || status == TUTTI_BUSY, "destroy", &error);
        }
    } else if (strcmp(exits, "waited") == 0) {
        const tutti_status status = tutti_recv(g, tensor(SMALL), 0, 7, TUTTI_CALL(.error = &error), NULL);
        expect(status != TUTTI_OK && status != TUTTI_TIMEOUT, "rank 0 has ended, and the others get an error", &error);
        expect(error.suspect == 0, "the error names rank 0", &error);
    }
    return TUTTI_OK;
}

static tutti_status rank_of_local(tutti_group *g, void *unused)
{
    const tutti_status status = rank_of(g, unused);
    sem_post(&begun);
    for (;;) { /* its group is not destroyed while main returns */
        pause();
    }
    return status;
}

static void *run_local(void *unused)
{
    tutti_error error;
    (void)unused;
    tutti_run_threads(RANKS, rank_of_local, NULL, &error);
    expect(0, "run_threads has ended", &error);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        return 96;
    }
    kind = argv[1];
    exits = argv[2];
    const int status = (int)strtol(argv[3], NULL, 10);
    tutti_error error;
    if (argc > 4) {
        pthread_t thread;
        sem_init(&begun, 0, 0);
        if (pthread_create(&thread, NULL, run_local, NULL) != 0) {
            return 95;
        }
        for (int r = 0; r < RANKS; r++) {
            while (sem_wait(&begun) != 0) {
            }
        }
        return status;
    }
    tutti_group *g = NULL;
    expect(tutti_init(NULL, &g, &error) == TUTTI_OK, "init", &error);
    rank_of(g, NULL);
    return status;
}
