/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=300 trees=release,debug,address,undefined */
/*
 * While a group is made, one rank is held up at the n-th message that it sends, for all n; and where the ranks make it
 * in the memory that they share, at the n-th wake-up. The last rank serves the rendezvous and leaves before the held
 * rank goes on. So some ranks have the new group, and others cannot get it any more. All of them name the rank that has
 * left, in the call in which they notice it, and never a rank that failed because of it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"

#define MESSAGES_MOST 100
#define HELD_MS       150 /* longer than the others need */

struct shared {
    char store[64];
    enum place place; /* SEND: the group is made at the rendezvous; WAKE: in shared memory */
    int32_t message;  /* of rank 0, at which it is held up */
    _Atomic bool served;
    _Atomic bool left;    /* the last rank has left, or is about to */
    _Atomic int32_t made; /* groups, by ranks that have not left */
    _Atomic bool held;    /* at this message; else the group took fewer */
    struct seen seen[RANKS_MOST];
};

static struct shared *shared;
static int32_t size;

static void record_served(void *unused)
{
    (void)unused;
    atomic_store(&shared->served, true);
}

static void hold_up(void *unused)
{
    (void)unused;
    atomic_store(&shared->held, true);
    while (!atomic_load(&shared->left)) {
        pause_us(1000);
    }
    pause_us(INT64_C(1000) * HELD_MS);
}

/* The main thread is in a call then. */
static void *leave(void *unused)
{
    (void)unused;
    while (!atomic_load(&shared->held) && atomic_load(&shared->made) < size - 1) {
        pause_us(1000);
    }
    pause_us(INT64_C(1000) * HELD_MS);
    atomic_store(&shared->left, true);
    exit(0);
}

static void check(struct seen *own, const char *call, tutti_status status, const tutti_error *e)
{
    if ((status != TUTTI_PEER_LEFT && status != TUTTI_REVOKED) || e->suspect != size - 1) {
        fault(own, "%s gives %s \"%s\", suspect %d; ", call, tutti_status_name(status), e->message, e->suspect);
    }
}

static void take_part(int32_t rank)
{
    struct seen *own = &shared->seen[rank];
    const bool last = rank == size - 1;
    pthread_t thread;
    tutti_group *world = NULL;
    tutti_group *group = NULL;
    tutti_error e;
    while (!last && !atomic_load(&shared->served)) {
        pause_us(1000);
    }
    if (last) {
        place_arm(PLACE_SEND, 1, record_served, NULL);
    }
    if (tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = size, .store = shared->store,
                                .timeout_ms = CALL_MS),
                   &world, &e) != TUTTI_OK) {
        fault(own, "init: %s; ", e.message);
        exit(1);
    }
    place_disarm();
    if (last && pthread_create(&thread, NULL, leave, NULL) != 0) {
        exit(1);
    }
    if (rank == 0) {
        place_arm(shared->place, shared->message, hold_up, NULL);
    }
    int32_t all[RANKS_MOST];
    for (int32_t i = 0; i < size; i++) {
        all[i] = i;
    }
    const char *const other[] = {"engine.window=131072", NULL}; /* than the parent's: not in the parent's memory */
    tutti_status status = shared->place == PLACE_SEND
                              ? tutti_group_create(world, all, size, TUTTI_CONFIG(.settings = other), &group, &e)
                              : tutti_group_split(world, 0, rank, NULL, &group, &e);
    place_disarm();
    if (last) {
        pthread_join(thread, NULL); /* it does not return */
    }
    if (status == TUTTI_OK) {
        atomic_fetch_add(&shared->made, 1);
        status = tutti_barrier(group, TUTTI_CALL(.error = &e));
        check(own, "barrier", status, &e);
        tutti_group_destroy(group, NULL);
    } else {
        check(own, "split", status, &e);
    }
    tutti_group_destroy(world, NULL);
    atomic_store(&own->finished, 1);
    exit(0);
}

/* False: something went wrong. */
static bool run(enum place place, int32_t message)
{
    pid_t pids[RANKS_MOST];
    bool well = true;
    memset(shared, 0, sizeof(*shared));
    shared->place = place;
    shared->message = message;
    snprintf(shared->store, sizeof(shared->store), "unix:half-made-%d-%d-%d", (int)getpid(), (int)place, message);
    for (int32_t rank = 0; rank < size; rank++) {
        pids[rank] = start_actor(take_part, rank);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        waitpid(pids[rank], NULL, 0);
        const struct seen *own = &shared->seen[rank];
        if (own->faults[0] || (rank < size - 1 && !atomic_load(&own->finished))) {
            fprintf(stderr, "held up at %s %d: rank %d: %s\n", place_names[place], message, rank, own->faults);
            well = false;
        }
    }
    return well;
}

int main(int argc, char **argv)
{
    int failures = 0;
    size = argc > 1 ? atoi(argv[1]) : 3;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    const enum place places[] = {PLACE_SEND, PLACE_WAKE};
    for (int i = 0; i < 2; i++) {
        int32_t message = 0;
        do {
            failures += !run(places[i], ++message);
        } while (atomic_load(&shared->held) && message < MESSAGES_MOST);
        printf("held up at %d of %s\n", message - 1, place_names[places[i]]);
        failures += message < 2 || message == MESSAGES_MOST;
    }
    return failures != 0;
}
