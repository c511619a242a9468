/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are late, leave, or die, in groups over Gloo. An alarm ends a rank that hangs.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "api/group/init_processes.h"
#include "clock.h"
#include "time_limits.h"

#define RANKS 3
#define LAST  (RANKS - 1)

static char store[64];
static const char *backend = "gloo";
static _Atomic int *arrived; /* shared by all processes: how many ranks have returned from a collective */
static _Atomic int *ending;  /* likewise: the process of the last rank */
static int32_t lanes = 1;

struct shared {
    _Atomic int arrived;
    _Atomic int ending;
    _Atomic int64_t begun_ns[LAST]; /* when the rank has begun to wait for the last rank; 0: not yet, -1: it will not */
    _Atomic bool conclusive;        /* late_after_deadline has shown what it is for */
};

static struct shared *shared;

/* The last rank waits until the others have returned, too: its next step must not affect them within that call. */
static void await_others(int32_t rank)
{
    atomic_fetch_add(arrived, rank != LAST);
    while (rank == LAST && atomic_load(arrived) < LAST) {
        sched_yield();
    }
}

static tutti_group *join(int32_t rank)
{
    tutti_group *g = NULL;
    tutti_error error;
    const char *const over_gloo[] = {"hier.outer=gloo", NULL};
    const tutti_config *config = TUTTI_CONFIG(.backend = backend, .store = store, .rank = rank, .world_size = RANKS,
                                              .timeout_ms = LONG_MS, .lanes = lanes, .settings = over_gloo);
    tutti_status status = tutti_init(config, &g, &error);
    test_status(__FILE__, __LINE__, "init", status, TUTTI_OK, &error, "");
    return g;
}

/* Every rank has joined, and its connections are made. */
static tutti_group *join_all(int32_t rank)
{
    tutti_group *g = join(rank);
    EXPECT_OK(tutti_barrier(g, NULL));
    await_others(rank);
    return g;
}

static tutti_status sum(tutti_group *g, int64_t count, int64_t timeout_ms, tutti_error *error)
{
    float *values = calloc((size_t)count, sizeof(*values));
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    const tutti_status status =
        tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = timeout_ms, .error = error));
    free(values);
    return status;
}

static int names_last(const tutti_error *error)
{
    const char *ranks = strstr(error->message, "for rank ");
    return ranks && strstr(ranks, "2");
}

/* The other ranks name the missing rank, the group has failed on all ranks, and another group is not affected. */
static void late(int32_t rank, void *user)
{
    const int64_t count = *(const int64_t *)user;
    tutti_group *world = join(rank);
    tutti_group *g = NULL;
    tutti_error error;
    EXPECT_ERROR(&error, TUTTI_OK, "", tutti_group_split(world, 0, rank, NULL, &g, &error));
    if (rank != LAST) {
        const tutti_status status = sum(g, count, 1500, &error);
        EXPECT(status == TUTTI_TIMEOUT || status == TUTTI_REVOKED);
        /* on a slow machine another rank may be late, too */
        EXPECT(error.suspect >= 0 && error.scope == TUTTI_SCOPE_GROUP && names_last(&error));
        EXPECT(tutti_barrier(g, TUTTI_CALL(.error = &error)) == TUTTI_REVOKED && names_last(&error));
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    if (rank == LAST &&
        sum(g, count, LONG_MS, &error) == TUTTI_OK) { /* all other ranks had sent their parts before their deadline */
        sum(g, count, LONG_MS, &error);
    }
    EXPECT(error.status == TUTTI_REVOKED && names_last(&error));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* For the last rank: when the later of the others has begun to wait, or -1. */
static int64_t await_begun(void)
{
    int64_t latest = 0;
    for (int r = 0; r < LAST; r++) {
        int64_t begun;
        while ((begun = atomic_exchange(&shared->begun_ns[r], 0)) == 0) {
            sched_yield();
        }
        latest = begun < 0 || latest < 0 ? -1 : begun > latest ? begun : latest;
    }
    return latest;
}

/*
 * The last rank arrives soon after the others' deadline, while they ask each other which ranks they wait for. No call
 * ends with OK then, so no later call sees what they have said. A busy machine may run a rank so late that the last one
 * has arrived when it looks at its deadline, and then OK is right: so there are several rounds until the group fails.
 * Or the last one is so late that the group fails in any case: then the test is made once more.
 */
static void late_after_deadline(int32_t rank, void *user)
{
    enum { ROUNDS = 40, DEADLINE_MS = 300, LATE_MS = 50, SOON_MS = 200 };
    (void)user;
    tutti_group *world = join_all(rank);
    tutti_error error;
    tutti_status status = TUTTI_OK;
    bool soon = false; /* in the round in which the others' calls failed */
    for (int i = 0; i < ROUNDS && status == TUTTI_OK; i++) {
        const int64_t begun = rank == LAST ? await_begun() : now_ns();
        if (rank != LAST) {
            atomic_store(&shared->begun_ns[rank], begun);
        }
        if (rank == LAST && begun > 0) {
            const int64_t enters = begun + (DEADLINE_MS + LATE_MS) * INT64_C(1000000);
            const struct timespec t = {.tv_sec = enters / 1000000000, .tv_nsec = enters % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        }
        const int64_t timeout = rank == LAST ? LONG_MS : DEADLINE_MS;
        status = tutti_barrier(world, TUTTI_CALL(.timeout_ms = timeout, .error = &error));
        if (begun > 0) {
            soon = status == TUTTI_OK && now_ns() < begun + (DEADLINE_MS + SOON_MS) * INT64_C(1000000);
        }
    }
    if (rank == LAST) {
        atomic_store(&shared->conclusive, soon);
    } else {
        atomic_store(&shared->begun_ns[rank], -1);
    }
    EXPECT(status == TUTTI_REVOKED || (rank != LAST && status == TUTTI_TIMEOUT));
    EXPECT(names_last(&error));
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* Ranks 0 and 1 wait in different lanes, and the last rank in none. So in each lane two ranks are missing, though one
 * of them waits in the other lane. */
static void late_in_lanes(int32_t rank, void *user)
{
    (void)user;
    tutti_group *world = join_all(rank);
    tutti_error error;
    if (rank != LAST) {
        const tutti_call *call = TUTTI_CALL(.lane = rank, .timeout_ms = 1500 + 100 * rank, .error = &error);
        const tutti_status status = tutti_barrier(world, call);
        EXPECT(status == TUTTI_TIMEOUT || status == TUTTI_REVOKED);
        EXPECT(strstr(error.message, "of lane 0 for rank 1 and 2") ||
               strstr(error.message, "of lane 1 for rank 0 and 2"));
        atomic_fetch_add(arrived, 1);
    }
    while (rank == LAST && atomic_load(arrived) < 2 * LAST) {
        sched_yield();
    }
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* A process that dies. */
static void dies(int32_t rank, void *user)
{
    const int64_t count = *(const int64_t *)user;
    tutti_group *world = join(rank);
    tutti_error error;
    EXPECT_OK(sum(world, count, LONG_MS, NULL));
    await_others(rank);
    if (rank == LAST) {
        _exit(0);
    }
    const tutti_status status = sum(world, count, LONG_MS, &error);
    EXPECT(status == TUTTI_PEER_DEAD || status == TUTTI_REVOKED);
    EXPECT(error.suspect == LAST && strstr(error.message, "rank 2") && strstr(error.message, "Gloo: "));
    EXPECT_ERROR(&error, TUTTI_REVOKED, "rank 2", tutti_barrier(world, TUTTI_CALL(.error = &error)));
    EXPECT(tutti_group_error(world, &error) == TUTTI_OK && error.status == TUTTI_PEER_DEAD);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* ... in the middle of a large transfer. */
static void dies_within(int32_t rank, void *user)
{
    enum { COUNT = 1 << 21 };
    (void)user;
    static float values[COUNT];
    const int64_t count = COUNT;
    tutti_group *world = join(rank);
    tutti_error error = {0};
    tutti_work *work = NULL;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_F32);
    EXPECT_OK(tutti_barrier(world, NULL));
    await_others(rank);
    if (rank == LAST) {
        EXPECT_OK(tutti_all_reduce_async(world, &t, &t, TUTTI_SUM, NULL, &work));
        tutti_work_wait(work, 2);
        _exit(0);
    }
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 3 && status == TUTTI_OK; i++) { /* the first may have ended already */
        status = tutti_all_reduce(world, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error));
    }
    EXPECT(status == TUTTI_PEER_DEAD || status == TUTTI_REVOKED);
    EXPECT(error.suspect == LAST);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* A rank that destroys its group has left: no message can come from it. */
static void leaves(int32_t rank, void *user)
{
    (void)user;
    float x = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_group *world = join_all(rank);
    tutti_error error;
    if (rank != LAST) {
        const tutti_status status = tutti_recv(world, &t, LAST, 1, TUTTI_CALL(.error = &error), NULL);
        EXPECT(status == TUTTI_PEER_LEFT || status == TUTTI_REVOKED);
        EXPECT(error.suspect == LAST);
    }
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* A rank that waits for a message from a rank that dies gets an error. */
static void dies_silent(int32_t rank, void *user)
{
    (void)user;
    float x = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_group *world = join_all(rank);
    tutti_error error;
    if (rank == LAST) {
        _exit(0);
    }
    const tutti_status status =
        tutti_recv(world, &t, rank == 0 ? LAST : TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, TUTTI_CALL(.error = &error), NULL);
    EXPECT(status == TUTTI_PEER_DEAD || status == TUTTI_REVOKED);
    EXPECT(error.suspect == LAST);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* Ranks that probe for a message from a rank that dies, in a loop or with one call. */
static void dies_probed(int32_t rank, void *user)
{
    const bool loops = *(const int64_t *)user != 0;
    tutti_group *world = join_all(rank);
    tutti_error error;
    tutti_status status = TUTTI_OK;
    int32_t found = 0;
    if (rank == LAST) {
        _exit(0);
    }
    while (loops && status == TUTTI_OK && !found) {
        status = tutti_probe(world, LAST, TUTTI_ANY_TAG, &found, NULL, &error);
        sched_yield();
    }
    if (!loops) {
        status = tutti_probe_wait(world, LAST, TUTTI_ANY_TAG, TUTTI_CALL(.error = &error), NULL);
    }
    EXPECT(status == TUTTI_PEER_DEAD || status == TUTTI_REVOKED);
    EXPECT(error.suspect == LAST && strstr(error.message, "probe of rank 2"));
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* A rank waits for a message from any rank. One rank leaves, then the last one dies, or leaves as well. */
static void receives_from_any(int32_t rank, void *user)
{
    const bool dies = *(const int64_t *)user != 0;
    float x = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_group *world = join_all(rank);
    tutti_error error;
    if (rank == 0) {
        const tutti_call *call = TUTTI_CALL(.timeout_ms = TUTTI_FOREVER, .error = &error);
        const tutti_status status = tutti_recv(world, &t, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, call, NULL);
        EXPECT(status == (dies ? TUTTI_PEER_DEAD : TUTTI_PEER_LEFT));
        EXPECT(dies ? error.suspect == LAST : error.suspect > 0);
    }
    while (rank == LAST && atomic_load(arrived) < RANKS) {
        sched_yield();
    }
    if (rank == LAST && dies) {
        _exit(0);
    }
    EXPECT_OK(tutti_group_destroy(world, NULL));
    atomic_fetch_add(arrived, rank == 1);
}

/* A message of rank 0 to rank 1 and one back. Rank 1 receives from any rank. */
static void exchange(tutti_group *g, int32_t rank)
{
    int32_t x = rank;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_I32);
    tutti_error error;
    const tutti_call *call = TUTTI_CALL(.error = &error);
    if (rank == 0) {
        EXPECT_ERROR(&error, TUTTI_OK, "", tutti_send(g, &t, 1, 1, call));
        EXPECT_ERROR(&error, TUTTI_OK, "", tutti_recv(g, &t, 1, 1, call, NULL));
    } else {
        EXPECT_ERROR(&error, TUTTI_OK, "", tutti_recv(g, &t, TUTTI_ANY_SOURCE, 1, call, NULL));
        EXPECT_ERROR(&error, TUTTI_OK, "", tutti_send(g, &t, 0, 1, call));
    }
}

/* A rank whose process ends by exit() with the group open has left. Ranks that do not need it go on. */
static void exits(int32_t rank, void *user)
{
    (void)user;
    float x = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_error error;
    setenv("TUTTI_HOST_ID", strcmp(backend, "hier") == 0 && rank == 0 ? "A" : "B", 1);
    tutti_group *world = join_all(rank);
    if (rank == LAST) {
        atomic_store(ending, getpid());
        return;
    }
    while (atomic_load(ending) == 0) {
        sched_yield();
    }
    struct pollfd last = {.fd = (int)syscall(SYS_pidfd_open, atomic_load(ending), 0), .events = POLLIN};
    EXPECT(last.fd >= 0 && poll(&last, 1, LONG_MS) == 1);
    for (int i = 0; i < 20; i++) { /* within these Gloo's thread notices the lost connection */
        exchange(world, rank);
    }
    EXPECT(tutti_group_error(world, &error) == TUTTI_OK && error.status == TUTTI_OK);
    exchange(world, rank);
    const tutti_status status = tutti_recv(world, &t, LAST, 1, TUTTI_CALL(.error = &error), NULL);
    EXPECT(status == TUTTI_PEER_LEFT || status == TUTTI_REVOKED);
    EXPECT(error.suspect == LAST);
    EXPECT(tutti_group_error(world, &error) == TUTTI_OK && error.status == TUTTI_PEER_LEFT);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* The child of a fork is no member: its exit() is no leave of the rank, which dies after it. */
static void child_exits(int32_t rank, void *user)
{
    (void)user;
    float x = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_group *world = join_all(rank);
    tutti_error error;
    if (rank == LAST) {
        int ended = -1;
        const pid_t child = fork();
        if (child == 0) {
            exit(0);
        }
        EXPECT(waitpid(child, &ended, 0) == child && ended == 0);
        _exit(test_result());
    }
    const tutti_status status = tutti_recv(world, &t, LAST, 1, TUTTI_CALL(.error = &error), NULL);
    EXPECT(status == TUTTI_PEER_DEAD || status == TUTTI_REVOKED);
    EXPECT(tutti_group_error(world, &error) == TUTTI_OK && error.status == TUTTI_PEER_DEAD);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

enum child { SPAWNED, FORKED, CLONED };

extern char **environ;
static int keeper[2]; /* a pipe: children read from it until the test closes its other end */

/* Starts a process that keeps what it has inherited from this rank until the test closes the pipe. */
static void start_child(enum child how)
{
    pid_t child = -1;
    if (how == SPAWNED) {
        char *words[] = {"cat", NULL};
        posix_spawn_file_actions_t actions;
        EXPECT(posix_spawn_file_actions_init(&actions) == 0);
        EXPECT(posix_spawn_file_actions_adddup2(&actions, keeper[0], STDIN_FILENO) == 0);
        EXPECT(posix_spawnp(&child, "cat", &actions, NULL, words, environ) == 0);
        posix_spawn_file_actions_destroy(&actions);
    } else {
        child = how == FORKED ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* which runs no handlers */
    }
    if (child == 0) {
        char end;
        syscall(SYS_close, keeper[1]);
        syscall(SYS_read, keeper[0], &end, sizeof(end));
        syscall(SYS_exit_group, 0);
    }
    EXPECT(child > 0);
}

static bool is_socket(int fd)
{
    char path[64];
    char what[8] = "";
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return readlink(path, what, sizeof(what) - 1) > 0 && strcmp(what, "socket:") == 0;
}

static bool closes_at_exec(int fd)
{
    char path[64];
    char line[64];
    unsigned flags = O_CLOEXEC; /* also of a descriptor that another thread has closed meanwhile */
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file) && sscanf(line, "flags: %o", &flags) != 1) {
    }
    if (file) {
        fclose(file);
    }
    return (flags & O_CLOEXEC) != 0;
}

/* Sockets of this process that a program gets that it executes. Read in /proc: other threads use the descriptors. */
static int inherited_sockets(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += is_socket(fd) && !closes_at_exec(fd);
    }
    return count;
}

/* A process that a rank has started outlives it, and does not keep its connections open. The rank dies, or, if the
 * process is a copy of it that no handler of forks has seen, ends by exit(). */
static void has_child(int32_t rank, void *user)
{
    const enum child how = (enum child) * (const int64_t *)user;
    const tutti_status wanted = how == CLONED ? TUTTI_PEER_LEFT : TUTTI_PEER_DEAD;
    const int sockets = inherited_sockets();
    float x = 0;
    const int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&x, &one, TUTTI_F32);
    tutti_group *world = join_all(rank);
    tutti_error error;
    EXPECT(inherited_sockets() == sockets);
    if (rank == LAST) {
        start_child(how);
        if (how == CLONED) {
            return;
        }
        _exit(test_result());
    }
    const tutti_status status =
        tutti_recv(world, &t, LAST, 1, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &error), NULL);
    EXPECT(status == wanted || status == TUTTI_REVOKED);
    EXPECT(tutti_group_error(world, &error) == TUTTI_OK && error.status == wanted && error.suspect == LAST);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

/* Sent data arrive, though the sender leaves at once. */
static void sends_and_leaves(int32_t rank, void *user)
{
    enum { COUNT = 1 << 20 };
    (void)user;
    static int32_t values[COUNT];
    const int64_t count = COUNT;
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I32);
    tutti_group *world = join(rank);
    for (int i = 0; i < COUNT && rank == LAST; i++) {
        values[i] = i;
    }
    EXPECT_OK(tutti_broadcast(world, &t, LAST, NULL));
    EXPECT(values[1] == 1 && values[COUNT - 1] == COUNT - 1);
    EXPECT_OK(tutti_group_destroy(world, NULL));
}

static void in_processes(const char *what, process_function function, int64_t count)
{
    snprintf(store, sizeof(store), "unix:gloo-faults-%ld-%s", (long)getpid(), what);
    atomic_store(arrived, 0);
    atomic_store(ending, 0);
    for (int r = 0; r < LAST; r++) {
        atomic_store(&shared->begun_ns[r], 0);
    }
    test_processes(what, RANKS, function, &count);
}

static void with_child(const char *what, enum child how)
{
    EXPECT(pipe2(keeper, O_CLOEXEC) == 0);
    in_processes(what, has_child, how);
    close(keeper[0]);
    close(keeper[1]);
}

int main(void)
{
    test_stand_alone();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    arrived = &shared->arrived;
    ending = &shared->ending;
    in_processes("late-small", late, 10);
    in_processes("late-large", late, 70000);
    for (int i = 0; i < 30 && test_result() == 0 && !atomic_load(&shared->conclusive); i++) {
        in_processes("late-after-deadline", late_after_deadline, i);
    }
    if (!atomic_load(&shared->conclusive)) {
        fprintf(stderr, "late-after-deadline: this machine is too busy for it\n");
    }
    lanes = 2;
    in_processes("late-in-lanes", late_in_lanes, 0);
    lanes = 1;
    in_processes("dies-small", dies, 10);
    in_processes("dies-large", dies, 70000);
    in_processes("dies-within", dies_within, 0);
    in_processes("leaves", leaves, 0);
    in_processes("exits", exits, 0);
    in_processes("child-exits", child_exits, 0);
    with_child("dies-before-spawned", SPAWNED);
    with_child("dies-before-forked", FORKED);
    with_child("exits-before-cloned", CLONED);
    in_processes("dies-silent", dies_silent, 0);
    in_processes("dies-probed", dies_probed, 0);
    in_processes("dies-probed-in-a-loop", dies_probed, 1);
    in_processes("any-dies", receives_from_any, 1);
    in_processes("any-leaves", receives_from_any, 0);
    in_processes("sends-and-leaves", sends_and_leaves, 0);
    backend = "hier"; /* rank 0 on a host of its own */
    in_processes("exits-hier", exits, 0);
    return test_result();
}
