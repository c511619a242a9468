/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3,4 timeout=300 trees=release,debug,address,undefined */
/*
 * Ranks make, use and destroy overlapping groups that share the world's segments, and one rank is killed at a random
 * moment. All groups have the victim as a member. Every other rank gets PEER_DEAD that names it, from the call that it
 * is in, also where the world was destroyed before. Where it was not, the others shrink it, and make groups again.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define ROUNDS 24

struct shared {
    char store[64];
    int32_t victim;
    bool orphaned; /* the world is destroyed first */
    _Atomic int32_t ready;
    struct seen seen[RANKS_MOST];
};

static struct shared *shared;
static int32_t size;

static tutti_status sum(tutti_group *g, tutti_error *e)
{
    const int64_t one = 1;
    int32_t value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = e));
    return status == TUTTI_OK && value != tutti_group_size(g) ? TUTTI_INTERNAL : status;
}

/* The ranks but `without`, in turn; -1: all. */
static tutti_status step(tutti_group *parent, int32_t without, int32_t *suspect, tutti_error *e)
{
    int32_t list[RANKS_MOST];
    int32_t count = 0;
    tutti_group *g = NULL;
    for (int32_t r = 0; r < size; r++) {
        if (r != without) {
            list[count++] = r;
        }
    }
    tutti_status status = tutti_group_create(parent, list, count, NULL, &g, e);
    *suspect = e->suspect;
    if (status == TUTTI_OK && (status = sum(g, e)) != TUTTI_OK) {
        *suspect = e->suspect >= 0 && e->suspect < count ? list[e->suspect] : -1;
    }
    if (status != TUTTI_OK) {
        return status; /* the group stays, since the others may still need it */
    }
    return tutti_group_destroy(g, e);
}

static void recover(tutti_group *world, struct seen *own)
{
    tutti_group *rest = NULL;
    tutti_group *g = NULL;
    tutti_error e;
    if (tutti_group_shrink(world, 20000, &rest, &e) != TUTTI_OK) {
        fault(own, "shrink: %s; ", e.message);
        return;
    }
    for (int i = 0; i < 3 && !own->faults[0]; i++) {
        if (tutti_group_split(rest, 0, -i, NULL, &g, &e) != TUTTI_OK || sum(g, &e) != TUTTI_OK ||
            tutti_group_size(g) != size - 1 || tutti_group_destroy(g, &e) != TUTTI_OK) {
            fault(own, "a group of the survivors: %s; ", e.message);
        }
    }
}

static void take_part(int32_t rank)
{
    struct seen *own = &shared->seen[rank];
    tutti_group *world = NULL;
    tutti_group *base = NULL;
    tutti_error e;
    int32_t suspect = -1;
    if (tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = size, .store = shared->store,
                                .timeout_ms = LONG_MS),
                   &world, &e) != TUTTI_OK ||
        tutti_group_split(world, 0, rank, NULL, &base, &e) != TUTTI_OK) {
        fault(own, "init: %s; ", e.message);
        exit(1);
    }
    if (shared->orphaned) {
        tutti_group_destroy(world, NULL);
        world = NULL;
    }
    atomic_fetch_add(&shared->ready, 1);
    tutti_status status = TUTTI_OK;
    for (int32_t i = 0; status == TUTTI_OK; i++) {
        const int32_t without = i % size;
        if (without != rank || without == shared->victim) {
            status = step(base, without == shared->victim ? -1 : without, &suspect, &e);
        }
    }
    if (status != TUTTI_PEER_DEAD || suspect != shared->victim) {
        fault(own, "%s \"%s\", suspect %d, not %d; ", tutti_status_name(status), e.message, suspect, shared->victim);
    }
    if (world) {
        recover(world, own);
    }
    atomic_store(&own->finished, 1);
    while (true) { /* until the test ends it: a rank that left would be another reason */
        pause_us(1000000);
    }
}

static bool run(int round)
{
    pid_t pids[RANKS_MOST];
    bool well = true;
    memset(shared, 0, sizeof(*shared));
    shared->victim = round % size;
    shared->orphaned = round % 2;
    snprintf(shared->store, sizeof(shared->store), "unix:subgroup-death-%d-%d", (int)getpid(), round);
    for (int32_t rank = 0; rank < size; rank++) {
        pids[rank] = start_actor(take_part, rank);
    }
    for (int64_t begun = now_ns();
         atomic_load(&shared->ready) < size && now_ns() - begun < INT64_C(1000000000) * LIMIT_S;) {
        pause_us(1000);
    }
    pause_us(rand() % 20000);
    kill(pids[shared->victim], SIGKILL);
    for (int32_t rank = 0; rank < size; rank++) {
        const struct seen *own = &shared->seen[rank];
        for (int64_t begun = now_ns(); rank != shared->victim && !atomic_load(&own->finished) &&
                                       now_ns() - begun < INT64_C(1000000000) * LIMIT_S;) {
            pause_us(1000);
        }
        if (rank != shared->victim && (own->faults[0] || !atomic_load(&own->finished))) {
            fprintf(stderr, "round %d, rank %d: %s\n", round, rank, own->faults[0] ? own->faults : "hangs");
            well = false;
        }
    }
    for (int32_t rank = 0; rank < size; rank++) {
        kill(pids[rank], SIGKILL);
        waitpid(pids[rank], NULL, 0);
    }
    return well;
}

int main(int argc, char **argv)
{
    int failures = 0;
    size = argc > 1 ? atoi(argv[1]) : 3;
    srand((unsigned)getpid());
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS && shared != MAP_FAILED; round++) {
        failures += !run(round);
    }
    return failures != 0 || shared == MAP_FAILED;
}
