/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=35 ranks=2,3 timeout=300 trees=release,debug,address,undefined */
/*
 * A newcomer of a growing group is killed at the n-th message that it sends while it joins, for all n. Once it has left
 * its record, the members name it by rank and process. Before that, they name it by rank, at their deadline. Their own
 * group works on, and grows by the newcomer that is not killed.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define MESSAGES_MOST 100
#define GROW_MS       8000 /* the time that each death before the record takes */
#define REPEATED_MOST 3

struct shared {
    char store[64];
    char token[TUTTI_TOKEN_BYTES];
    _Atomic int32_t attempt; /* from 1: the token exists for a newcomer ... */
    _Atomic int32_t message; /* ... that is killed at this message */
    _Atomic int32_t
        starved; /* attempts that showed nothing, as a member saw it: the store had no CPU until the deadline */
    _Atomic int32_t named; /* how often a member got the number of the ended process before it had the group */
    _Atomic pid_t newcomer;
    _Atomic bool joined; /* a newcomer has joined, and the test ends */
    struct seen members[RANKS_MOST];
};

static struct shared *shared;
static int32_t members;

static void die(void *unused)
{
    (void)unused;
    raise(SIGKILL);
}

static void be_newcomer(int32_t message)
{
    tutti_group *larger = NULL;
    tutti_error e;
    atomic_store(&shared->newcomer, getpid());
    place_arm(PLACE_SEND, message, die, NULL);
    const tutti_status joined = tutti_group_join(shared->token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &larger, &e);
    place_disarm();
    const bool well = joined == TUTTI_OK && tutti_barrier(larger, TUTTI_CALL(.error = &e)) == TUTTI_OK;
    if (!well) {
        fprintf(stderr, "the newcomer: %s\n", e.message);
    }
    tutti_group_destroy(larger, NULL);
    exit(well ? 0 : 1);
}

/* It may have got its group before it ended: then the first call reports its end. True if it is alive. */
static bool check_larger(struct seen *own, tutti_group *larger)
{
    tutti_error e;
    const tutti_status status = tutti_barrier(larger, TUTTI_CALL(.error = &e));
    if (status != TUTTI_OK && (status != TUTTI_PEER_DEAD || e.suspect != members)) {
        fault(own, "barrier gives %s \"%s\", suspect %d; ", tutti_status_name(status), e.message, e.suspect);
    }
    tutti_group_destroy(larger, NULL);
    return status == TUTTI_OK;
}

static void check_error(struct seen *own, tutti_status status, const tutti_error *e, bool last)
{
    char name[64];
    if (status == TUTTI_TIMEOUT && strstr(e->message, "does not answer") && !last) {
        atomic_fetch_add(&shared->starved, 1);
        return;
    }
    snprintf(name, sizeof(name), "rank %d (process %d) was killed", members, (int)atomic_load(&shared->newcomer));
    const bool named = status == TUTTI_PEER_DEAD && strstr(e->message, name);
    const bool missed = status == TUTTI_TIMEOUT && strstr(e->message, "missing: rank");
    if ((!named && !missed) || e->suspect != members) {
        fault(own, "grow gives %s \"%s\", suspect %d; ", tutti_status_name(status), e->message, e->suspect);
    }
    atomic_fetch_add(&shared->named, named && strstr(e->message, "before it had the group"));
}

static void be_member(int32_t rank)
{
    struct seen *own = &shared->members[rank];
    tutti_group *group = NULL;
    tutti_error e;
    bool alive = false;
    int32_t repeated = 0;
    if (tutti_init(TUTTI_CONFIG(.backend = "shm", .rank = rank, .world_size = members, .store = shared->store,
                                .timeout_ms = LONG_MS),
                   &group, &e) != TUTTI_OK) {
        fault(own, "init: %s; ", e.message);
        exit(1);
    }
    for (int32_t message = 1; message <= MESSAGES_MOST && !alive && !own->faults[0]; message++) {
        tutti_group *larger = NULL;
        const int32_t starved = atomic_load(&shared->starved);
        if (rank == 0) {
            tutti_group_token(group, shared->token, sizeof(shared->token), &e);
            atomic_store(&shared->message, message);
            atomic_fetch_add(&shared->attempt, 1);
        }
        tutti_barrier(group, NULL); /* behind it all have the token */
        const tutti_status status = tutti_group_grow(group, shared->token, 1, GROW_MS << repeated, &larger, &e);
        if (status == TUTTI_OK) {
            alive = check_larger(own, larger);
        } else {
            check_error(own, status, &e, repeated == REPEATED_MOST);
        }
        if (tutti_barrier(group, TUTTI_CALL(.error = &e)) != TUTTI_OK) {
            fault(own, "the members' group: %s; ", e.message);
        }
        if (atomic_load(&shared->starved) != starved) { /* the same number on all members */
            repeated++;
            message--;
        }
    }
    atomic_store(&shared->joined, alive);
    tutti_group_destroy(group, NULL);
    atomic_store(&own->finished, true);
    exit(0);
}

/* Newcomers start one after the other, each when the members wait for it. */
static void send_newcomers(pid_t member)
{
    int32_t sent = 0;
    pid_t last = -1; /* not reaped yet: other processes can read how it ended until its parent has waited for it */
    while (waitpid(member, NULL, WNOHANG) == 0) {
        const int32_t attempt = atomic_load(&shared->attempt);
        if (attempt > sent) {
            if (last > 0) {
                waitpid(last, NULL, 0);
            }
            last = start_actor(be_newcomer, atomic_load(&shared->message));
            sent = attempt;
        }
        pause_us(1000);
    }
    if (last > 0) {
        waitpid(last, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    pid_t pids[RANKS_MOST] = {0};
    int failures = 0;
    members = argc > 1 ? atoi(argv[1]) : 2;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    snprintf(shared->store, sizeof(shared->store), "unix:newcomer-%d", (int)getpid());
    for (int32_t rank = 0; rank < members; rank++) {
        pids[rank] = start_actor(be_member, rank);
    }
    send_newcomers(pids[0]);
    for (int32_t rank = 0; rank < members; rank++) {
        if (rank > 0) {
            waitpid(pids[rank], NULL, 0);
        }
        if (!atomic_load(&shared->members[rank].finished) || shared->members[rank].faults[0]) {
            fprintf(stderr, "member %d: %s\n", rank, shared->members[rank].faults);
            failures++;
        }
    }
    printf("%d newcomers, %d times named before they had the group\n", atomic_load(&shared->attempt),
           atomic_load(&shared->named));
    return failures != 0 || !atomic_load(&shared->joined) || atomic_load(&shared->named) == 0;
}
