/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=150 trees=release,debug,address,undefined */
/*
 * fork() while groups are alive. In the child their handles return FORKED. The child can join a world of its own, end
 * by exit(), or fork again. The parent is not affected. (Not under ThreadSanitizer, which cannot start threads in the
 * child of a process that has threads.)
 */
#include "init_processes.h"
#include "time_limits.h"

#include <pthread.h>
#include <sched.h>
#include <tutti/backend.h>

#define FORKS 40

static const int64_t one = 1;

/* Runs `function` in a child that ends by exit(), and waits for it. */
static void in_child(const char *file, int line, void (*function)(tutti_group *g), tutti_group *g)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LIMIT_S);
        atomic_store(&test_failures, 0);
        function(g);
        exit(test_result());
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        char text[80];
        snprintf(text, sizeof(text), "the child ended with wait status 0x%x", (unsigned)status);
        test_fail(file, line, text);
    }
}

#define IN_CHILD(function, g) in_child(__FILE__, __LINE__, (function), (g))

static void expect_forked(tutti_group *g)
{
    tutti_error e;
    tutti_group *child = NULL;
    int32_t value = 5;
    int32_t found = 0;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_null_record record = {.size = sizeof(record)};
    EXPECT(tutti_group_rank(g) == -1 && tutti_group_size(g) == -1 && tutti_group_lanes(g) == -1);
    EXPECT(tutti_group_backend(g) == NULL && tutti_group_capabilities(g) == 0);
    EXPECT(tutti_group_global_rank(g, 0) == -1 && tutti_group_local_rank(g, 0) == -1);
#define FORKED(call) EXPECT_ERROR(&e, TUTTI_FORKED, "fork", call)
#define WITH_ERROR   TUTTI_CALL(.error = &e)
    FORKED(tutti_barrier(g, WITH_ERROR));
    FORKED(tutti_all_reduce(g, &t, &t, TUTTI_SUM, WITH_ERROR));
    FORKED(tutti_broadcast(g, &t, 0, WITH_ERROR));
    FORKED(tutti_send(g, &t, 0, 0, WITH_ERROR));
    FORKED(tutti_recv(g, &t, 0, 0, WITH_ERROR, NULL));
    FORKED(tutti_probe(g, 0, 0, &found, NULL, &e));
    FORKED(tutti_batch_begin(g, &e));
    FORKED(tutti_group_create(g, &(int32_t){0}, 1, NULL, &child, &e));
    FORKED(tutti_group_split(g, 0, 0, NULL, &child, &e));
    FORKED(tutti_group_destroy(g, &e));
    FORKED(tutti_group_destroy(g, &e)); /* and still so */
#undef FORKED
#undef WITH_ERROR
    EXPECT(tutti_group_describe(g, NULL, 0, NULL, &e) == TUTTI_FORKED && strstr(e.message, "fork"));
    EXPECT(tutti_group_error(g, &e) == TUTTI_FORKED && strstr(e.message, "fork"));
    EXPECT(tutti_null_recorded(g, 0, &record, &e) == TUTTI_FORKED && strstr(e.message, "fork"));
    EXPECT(value == 5 && !child);
}

static void only_exit(tutti_group *g)
{
    (void)g;
}

static void only_finalize(tutti_group *g)
{
    EXPECT_OK(tutti_finalize(NULL));
    EXPECT_OK(tutti_finalize(NULL));
    EXPECT(tutti_group_size(g) == -1);
}

static tutti_status use(tutti_group *g, void *user)
{
    (void)user;
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* The child makes groups of its own, of every kind that it can make alone, beside the parent's handle. */
static void own_world(tutti_group *g)
{
    static const char *const backends[] = {"shm", "local", "null", "auto"};
    tutti_error e;
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        tutti_group *own = NULL;
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = backends[i], .world_size = 1), &own, &e));
        EXPECT_USABLE(own);
        EXPECT(own != g);
        expect_forked(g);
        EXPECT_OK(tutti_group_destroy(own, &e));
    }
    test_ranks(2, use);
    EXPECT_OK(tutti_finalize(&e));
}

static void grandchild(tutti_group *g)
{
    tutti_group *own = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1), &own, NULL));
    expect_forked(g);
    IN_CHILD(expect_forked, own);
    IN_CHILD(expect_forked, g);
    IN_CHILD(own_world, own);
    EXPECT_USABLE(own);
    EXPECT_OK(tutti_finalize(NULL));
}

/* The same calls as in expect_forked, until the call cache holds them: the child must not use the entries. */
static void remember_calls(tutti_group *g)
{
    tutti_error e;
    for (int i = 0; i < 3; i++) {
        int32_t value = 5;
        DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.error = &e)));
        EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &e)));
        EXPECT_OK(tutti_broadcast(g, &t, 0, TUTTI_CALL(.error = &e)));
        EXPECT(value == 5 * tutti_group_size(g));
    }
}

static void all_children(tutti_group *g)
{
    remember_calls(g);
    IN_CHILD(only_exit, g);
    IN_CHILD(only_finalize, g);
    IN_CHILD(expect_forked, g);
    IN_CHILD(own_world, g);
    IN_CHILD(grandchild, g);
}

/* The rank that serves the store forks, and so does its client; the group works during and after the forks. */
static void forking_rank(int32_t rank, void *user)
{
    tutti_error e;
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(
        TUTTI_CONFIG(.rank = rank, .world_size = 2, .backend = "shm", .store = user, .timeout_ms = LONG_MS), &g, &e));
    if (!g) {
        fprintf(stderr, "init: %s\n", e.message);
        return;
    }
    EXPECT_USABLE(g);
    all_children(g);
    EXPECT_USABLE(g);
    tutti_group *child = NULL; /* the store still works, too */
    EXPECT_OK(tutti_group_split(g, 1, -rank, NULL, &child, &e));
    EXPECT_USABLE(child);
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_finalize(&e));
}

/* Another thread makes and destroys groups all the time: the child must not inherit a lock that none of its threads
 * holds. */
static atomic_int stop;

static void *churn(void *user)
{
    (void)user;
    while (!atomic_load(&stop)) {
        tutti_group *g = NULL;
        tutti_error e;
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1, .backend = "local"), &g, &e));
        EXPECT_OK(tutti_group_destroy(g, &e));
        tutti_backend_find("shm");
    }
    return NULL;
}

static void join_alone(tutti_group *g)
{
    (void)g;
    alarm(LIMIT_S);
    tutti_group *own = NULL;
    tutti_error e;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1, .backend = "local"), &own, &e));
    EXPECT_USABLE(own);
    EXPECT_OK(tutti_finalize(&e));
    _exit(test_result()); /* the child loses memory that the other threads were using: a leak checker would count it */
}

static void busy_parent(int32_t rank, void *user)
{
    (void)rank;
    (void)user;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        EXPECT(pthread_create(&threads[i], NULL, churn, NULL) == 0);
    }
    for (int i = 0; i < FORKS && atomic_load(&test_failures) == 0; i++) {
        IN_CHILD(join_alone, NULL);
        sched_yield();
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    EXPECT_OK(tutti_finalize(NULL));
}

static void lonely_parent(int32_t rank, void *user)
{
    (void)rank;
    static const char *const backends[] = {"shm", "local", "null"};
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        tutti_group *g = NULL;
        tutti_error e;
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = backends[i], .world_size = 1, .store = user), &g, &e));
        all_children(g);
        EXPECT_USABLE(g);
        EXPECT_OK(tutti_group_destroy(g, &e));
    }
    EXPECT_OK(tutti_finalize(NULL));
}

int main(void)
{
    char store[80];
    test_stand_alone();
    test_store_name(store, sizeof(store));
    test_processes("a process alone", 1, lonely_parent, store);
    test_processes("a process alone, without a store", 1, lonely_parent, NULL);
    test_store_name(store, sizeof(store));
    test_processes("two processes", 2, forking_rank, store);
#ifndef __SANITIZE_ADDRESS__ /* its allocator does not guard its own locks across fork, so the child hangs in calloc */
    test_processes("a process with busy threads", 1, busy_parent, NULL);
#else
    (void)busy_parent;
#endif
    return test_result();
}
