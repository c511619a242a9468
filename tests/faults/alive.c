/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=3 timeout=300 */
/*
 * Events that must not count as a death: children that end in any way, programs that a rank starts, the end of its main
 * thread. Meanwhile the other ranks wait so long that they check the rank's process.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/support/round.h"
#include "time_limits.h"

#define LONG_US 400000
#define COUNT   100000 /* elements */

static struct round_state *state;
static tutti_group *group;
static struct seen *own;

static void barrier(const char *when)
{
    tutti_error e;
    const tutti_status status = tutti_barrier(group, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e));
    if (status != TUTTI_OK) {
        fault(own, "%s: %s \"%s\"", when, tutti_status_name(status), e.message);
    }
}

/* So large that the kernel copies it between the private memory of two ranks. */
static void gather(const char *when)
{
    static const char *algorithm;
    static float part[COUNT];
    static float whole[RANKS_MOST * COUNT];
    const int32_t size = state->round.size;
    const int64_t count = COUNT;
    const int64_t all = count * size;
    const DLTensor in = tutti_tensor_1d(part, &count, TUTTI_F32);
    DLTensor out = tutti_tensor_1d(whole, &all, TUTTI_F32);
    tutti_error e;
    part[COUNT - 1] = (float)tutti_group_rank(group);
    if (tutti_all_gather(group, &in, &out, 0, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e)) != TUTTI_OK) {
        fault(own, "%s: %s", when, e.message);
    }
    if (!algorithm) { /* if the kernel may not read the memory, the algorithm is another one */
        algorithm = tutti_group_algorithm(group, 0);
    } else if (strcmp(tutti_group_algorithm(group, 0), algorithm) != 0) {
        fault(own, "%s: all_gather is %s, and was %s", when, tutti_group_algorithm(group, 0), algorithm);
    }
    for (int32_t r = 0; r < size; r++) {
        if (whole[(r + 1) * COUNT - 1] != (float)r) {
            fault(own, "%s: wrong part %d", when, r);
        }
    }
}

static void child(void (*end)(void))
{
    const pid_t pid = fork();
    if (pid == 0) {
        end();
    }
    pause_us(LONG_US); /* how long it stays a zombie */
    waitpid(pid, NULL, 0);
}

static void end_in_order(void)
{
    exit(0);
}

static void end_at_once(void)
{
    _exit(3);
}

static void end_by_force(void)
{
    kill(getpid(), SIGKILL);
}

static void begin_another(void)
{
    execl("/bin/true", "true", (char *)NULL);
}

static void *go_on(void *unused)
{
    (void)unused;
    pause_us(LONG_US);
    barrier("without the main thread");
    gather("without the main thread");
    tutti_group_destroy(group, NULL);
    tutti_finalize(NULL);
    atomic_store(&own->finished, 1);
    _exit(0);
}

static void be_member(int32_t rank)
{
    void (*const ends[])(void) = {end_in_order, end_at_once, end_by_force, begin_another};
    own = &state->seen[rank];
    tutti_error e;
    const char *const settings[] = {"engine.single_copy_bytes=64K", NULL};
    if (tutti_init(TUTTI_CONFIG(.settings = settings, .backend = "shm", .rank = rank, .world_size = state->round.size,
                                .store = state->store, .timeout_ms = LONG_MS),
                   &group, &e) != TUTTI_OK) {
        fault(own, "init: %s", e.message);
        _exit(1);
    }
    barrier("before");
    gather("before");
    for (int i = 0; i < 4; i++) {
        if (rank == 1) {
            child(ends[i]);
        }
        barrier("after the end of a child");
    }
    if (rank == 1) {
        pthread_t thread;
        if (system("true") != 0 || pthread_create(&thread, NULL, go_on, NULL) != 0) {
            abort();
        }
        pthread_detach(thread);
        pthread_exit(NULL);
    }
    go_on(NULL);
}

int main(int argc, char **argv)
{
    int failures = 0;
    state = round_state_make();
    state->round.size = argc > 1 ? atoi(argv[1]) : 3;
    snprintf(state->store, sizeof(state->store), "unix:alive-%d", (int)getpid());
    for (int32_t rank = 0; rank < state->round.size; rank++) {
        state->pids[rank] = start_actor(be_member, rank);
    }
    for (int32_t rank = 0; rank < state->round.size; rank++) {
        int status = 0;
        waitpid(state->pids[rank], &status, 0);
        if (!atomic_load(&state->seen[rank].finished) || state->seen[rank].faults[0]) {
            fprintf(stderr, "rank %d ended with status 0x%x: %s\n", rank, (unsigned)status, state->seen[rank].faults);
            failures++;
        }
    }
    return failures != 0;
}
