/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=300 trees=release,debug,address,undefined */
/*
 * A group of which some ranks have got their part when others cannot get theirs any more. Rank 0 pauses at its n-th
 * message, if the group is made at the rendezvous, or at its n-th wake-up, if it is made in shared memory, for each n.
 * Meanwhile the last rank, which serves the rendezvous, exits. Each other rank must name the last rank, in the call in
 * which it notices that, and no rank that failed because of it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define MESSAGES_MOST 100
#define PAUSE_MS      150 /* longer than the others need */

struct shared {
    char store[64];
    enum place place; /* SEND: the group is made at the rendezvous; WAKE: in shared memory */
    int32_t pause_at; /* the number of the message or wake-up of rank 0 */
    _Atomic bool served;
    _Atomic bool left;           /* the last rank has left, or is about to */
    _Atomic int32_t groups_made; /* by ranks that have not left */
    _Atomic bool paused;         /* rank 0, at this message; else the group took fewer */
    struct seen seen[RANKS_MOST];
};

static struct shared *shared;
static int32_t size;

static void record_served(void *unused)
{
    (void)unused;
    atomic_store(&shared->served, true);
}

static void pause_rank(void *unused)
{
    (void)unused;
    atomic_store(&shared->paused, true);
    while (!atomic_load(&shared->left)) {
        pause_us(1000);
    }
    pause_us(INT64_C(1000) * PAUSE_MS);
}

/* Ends the process of the last rank while its main thread is in a call. */
static void *leave(void *unused)
{
    (void)unused;
    while (!atomic_load(&shared->paused) && atomic_load(&shared->groups_made) < size - 1) {
        pause_us(1000);
    }
    pause_us(INT64_C(1000) * PAUSE_MS);
    atomic_store(&shared->left, true);
    exit(0);
}

static void check(struct seen *own, const char *call, tutti_status status, const tutti_error *e)
{
    if ((status != TUTTI_PEER_LEFT && status != TUTTI_REVOKED) || e->suspect != size - 1) {
        fault(own, "%s gives %s \"%s\", suspect %d", call, tutti_status_name(status), e->message, e->suspect);
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
                                .timeout_ms = LONG_MS),
                   &world, &e) != TUTTI_OK) {
        fault(own, "init: %s", e.message);
        exit(1);
    }
    place_disarm();
    if (last && pthread_create(&thread, NULL, leave, NULL) != 0) {
        exit(1);
    }
    if (rank == 0) {
        place_arm(shared->place, shared->pause_at, pause_rank, NULL);
    }
    int32_t all[RANKS_MOST];
    for (int32_t i = 0; i < size; i++) {
        all[i] = i;
    }
    /* a window other than the parent's, so that the group cannot be made in the parent's memory */
    const char *const settings[] = {"engine.window=131072", NULL};
    const bool at_rendezvous = shared->place == PLACE_SEND;
    tutti_status status = at_rendezvous
                              ? tutti_group_create(world, all, size, TUTTI_CONFIG(.settings = settings), &group, &e)
                              : tutti_group_split(world, 0, rank, NULL, &group, &e);
    place_disarm();
    if (last) {
        pthread_join(thread, NULL); /* it does not return */
    }
    if (status == TUTTI_OK) {
        atomic_fetch_add(&shared->groups_made, 1);
        status = tutti_barrier(group, TUTTI_CALL(.error = &e));
        check(own, "barrier", status, &e);
        tutti_group_destroy(group, NULL);
    } else {
        check(own, at_rendezvous ? "group_create" : "group_split", status, &e);
    }
    tutti_group_destroy(world, NULL);
    atomic_store(&own->finished, 1);
    exit(0);
}

/* False: something went wrong. */
static bool run(enum place place, int32_t pause_at)
{
    pid_t pids[RANKS_MOST];
    bool well = true;
    memset(shared, 0, sizeof(*shared));
    shared->place = place;
    shared->pause_at = pause_at;
    snprintf(shared->store, sizeof(shared->store), "unix:partial-%d-%d-%d", (int)getpid(), (int)place, pause_at);
    for (int32_t rank = 0; rank < size; rank++) {
        pids[rank] = start_actor(take_part, rank);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        int code = 0;
        waitpid(pids[rank], &code, 0);
        const struct seen *own = &shared->seen[rank];
        if (code != 0 || own->faults[0] || (rank < size - 1 && !atomic_load(&own->finished))) {
            fprintf(stderr, "paused at %s %d: rank %d has ended with 0x%x: %s\n", place_names[place], pause_at, rank,
                    (unsigned)code, own->faults);
            well = false;
        }
    }
    return well;
}

int main(int argc, char **argv)
{
    int failures = 0;
    size = argc > 1 ? atoi(argv[1]) : 3;
    if (size < 2 || size > RANKS_MOST) {
        return 2;
    }
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    const enum place places[] = {PLACE_SEND, PLACE_WAKE};
    for (int i = 0; i < 2; i++) {
        int32_t pause_at = 0;
        do {
            failures += !run(places[i], ++pause_at);
        } while (atomic_load(&shared->paused) && pause_at < MESSAGES_MOST);
        printf("paused at %d of %s\n", pause_at - 1, place_names[places[i]]);
        fflush(stdout); /* else each child prints it again */
        failures += pause_at < 2 || pause_at == MESSAGES_MOST;
    }
    return failures != 0;
}
