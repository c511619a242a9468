/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=24 timeout=300 trees=release,debug,address,undefined */
/*
 * Many ranks form a world, and one of them is killed at the n-th message that it sends, for all n from the one behind
 * its record on. So it dies in each step in which ranks read records and descriptors of many ranks in one request. All
 * others name it, by rank, in tutti_init or in the first call, and keep no descriptor and no mapping.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define SIZE_MOST     64
#define FIRST_MESSAGE 5 /* before it: the greeting of the store, its number (looked for, put), and the own record */
#define MESSAGES_MOST 100

struct shared {
    char store[64];
    int32_t message; /* of the victim, at which it is killed */
    _Atomic bool served;
    _Atomic int32_t come; /* ranks whose records are there, besides rank 0 and the victim */
    _Atomic bool killed;
    _Atomic int32_t made; /* ranks that got the group */
    struct seen seen[SIZE_MOST];
};

static struct shared *shared;
static int32_t size;
static int32_t victim;

static void record_served(void *unused)
{
    (void)unused;
    atomic_store(&shared->served, true);
}

static void record_arrived(void *unused)
{
    (void)unused;
    atomic_fetch_add(&shared->come, 1);
}

/* Once all have arrived: after a loss, the rank that serves the store does not wait for others. */
static void be_killed(void *unused)
{
    (void)unused;
    while (atomic_load(&shared->come) < size - 2) {
        pause_us(1000);
    }
    atomic_store(&shared->killed, true);
    raise(SIGKILL);
}

static void check(struct seen *own, const char *call, tutti_status status, const tutti_error *e)
{
    if (status != TUTTI_PEER_DEAD || e->suspect != victim) {
        fault(own, "%s gives %s \"%s\", suspect %d; ", call, tutti_status_name(status), e->message, e->suspect);
    }
}

/* The victim lives, and all ranks have the group. */
static void check_sum(struct seen *own, tutti_group *world)
{
    const int64_t one = 1;
    int32_t value = own == &shared->seen[victim] ? 1000 : 1;
    tutti_error e;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    if (tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
        fault(own, "all_reduce: %s; ", e.message);
    } else if (value != 1000 + size - 1) {
        fault(own, "all_reduce gives %d; ", value);
    }
}

static void take_part(int32_t rank)
{
    struct seen *own = &shared->seen[rank];
    const int before = entries(DESCRIPTORS);
    tutti_group *world = NULL;
    tutti_error e;
    while (rank != 0 && !atomic_load(&shared->served)) {
        pause_us(1000);
    }
    if (rank == 0) {
        place_arm(PLACE_SEND, 1, record_served, NULL);
    } else if (rank == victim) {
        place_arm(PLACE_SEND, shared->message, be_killed, NULL);
    } else {
        place_arm(PLACE_SEND, FIRST_MESSAGE, record_arrived, NULL);
    }
    const tutti_status status = tutti_init(
        TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = size, .store = shared->store, .timeout_ms = LONG_MS),
        &world, &e);
    place_disarm();
    if (status != TUTTI_OK) {
        check(own, "init", status, &e);
    } else {
        atomic_fetch_add(&shared->made, 1);
        while (!atomic_load(&shared->killed) && atomic_load(&shared->made) < size) {
            pause_us(1000);
        }
        if (atomic_load(&shared->killed)) {
            check(own, "barrier", tutti_barrier(world, TUTTI_CALL(.error = &e)), &e);
        } else {
            check_sum(own, world);
        }
        tutti_group_destroy(world, NULL);
    }
    /* one each: the flight recorder stays; and one of a server that has ended after its last client */
    const int most = before + (rank == 0 ? 2 : 1);
    if (settles(DESCRIPTORS, most) > most || mappings() > 1) {
        fault(own, "%d descriptors and %d mappings are left, %d descriptors before; ", entries(DESCRIPTORS), mappings(),
              before);
    }
    atomic_store(&own->finished, 1);
    exit(0);
}

/* False: something went wrong. */
static bool run(int32_t message)
{
    pid_t pids[SIZE_MOST];
    bool well = true;
    memset(shared, 0, sizeof(*shared));
    shared->message = message;
    snprintf(shared->store, sizeof(shared->store), "unix:wide-%d-%d", (int)getpid(), message);
    for (int32_t rank = 0; rank < size; rank++) {
        pids[rank] = start_actor(take_part, rank);
    }
    for (int32_t rank = 0; rank < size; rank++) {
        waitpid(pids[rank], NULL, 0);
        const struct seen *own = &shared->seen[rank];
        const bool ends = rank == victim && atomic_load(&shared->killed);
        if (own->faults[0] || (!ends && !atomic_load(&own->finished))) {
            fprintf(stderr, "killed at message %d: rank %d: %s\n", message, rank, own->faults);
            well = false;
        }
    }
    return well;
}

int main(int argc, char **argv)
{
    int failures = 0;
    int32_t message = FIRST_MESSAGE;
    size = argc > 1 ? atoi(argv[1]) : 24;
    victim = size / 2;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || size > SIZE_MOST) {
        return 1;
    }
    do {
        failures += !run(message);
    } while (atomic_load(&shared->killed) && ++message < MESSAGES_MOST && failures == 0);
    printf("killed at %d messages\n", message - FIRST_MESSAGE);
    return failures != 0 || message < FIRST_MESSAGE + 5 || message == MESSAGES_MOST;
}
