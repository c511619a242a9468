/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=150 */
/*
 * Ranks that do not fit together: one is missing, one is claimed twice, or their configurations differ. The cases are
 * real: processes call tutti_init and end when it fails, also the process that serves the store. All ranks must get the
 * cause and the suspect.
 */
#include "init_processes.h"

#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define SHORT_MS 8000 /* longer than processes that start together are apart on a busy machine */

static tutti_status join(const tutti_config *config, tutti_error *e)
{
    tutti_group *g = (tutti_group *)(uintptr_t)0x1234;
    tutti_status status = tutti_init(config, &g, e);
    EXPECT(status == TUTTI_OK || g == (tutti_group *)(uintptr_t)0x1234);
    return status;
}

/* After a refusal a process can still join something else. */
static void go_on(void)
{
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.world_size = 1), &g, &e));
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_finalize(&e));
}

/* Ranks 1 and 3 of 4 never come; the error of the other two names both. */
static void missing(int32_t index, void *user)
{
    tutti_error e;
    tutti_status status =
        join(TUTTI_CONFIG(.rank = index * 2, .world_size = 4, .store = user, .timeout_ms = SHORT_MS), &e);
    test_status(__FILE__, __LINE__, "ranks 1 and 3 missing", status, TUTTI_TIMEOUT, &e, "1, 3");
    EXPECT(e.suspect == 1);
    EXPECT(e.operation == TUTTI_OP_INIT);
    EXPECT(strstr(e.message, "8000") != NULL);
    go_on();
}

static void missing_server(int32_t index, void *user)
{
    tutti_error e;
    tutti_status status =
        join(TUTTI_CONFIG(.rank = index + 1, .world_size = 3, .store = user, .timeout_ms = SHORT_MS), &e);
    test_status(__FILE__, __LINE__, "rank 0, which serves, is missing", status, TUTTI_TIMEOUT, &e, user);
    go_on();
}

/* Processes 0 and 1 both come as rank 0 of 2, process 2 as rank 1. One of the first two is refused, and its end does
 * not disturb the others. They stay until the refused process has tried: after the end of a job it would get another
 * error. */
struct claims {
    const char *store;
    atomic_int *taken;
};

static void twice(int32_t index, void *user)
{
    struct claims *c = user;
    tutti_error e;
    tutti_group *g = NULL;
    tutti_status status = tutti_init(TUTTI_CONFIG(.rank = index == 2 ? 1 : 0, .world_size = 2, .store = c->store,
                                                  .timeout_ms = LONG_MS, .backend = "shm"),
                                     &g, &e);
    if (status == TUTTI_RANK_TAKEN) {
        atomic_fetch_add(c->taken, 1);
        EXPECT(index != 2);
        EXPECT(strstr(e.message, "rank 0") != NULL);
        go_on();
        return;
    }
    test_status(__FILE__, __LINE__, "the rightful rank", status, TUTTI_OK, &e, "");
    if (status == TUTTI_OK) {
        EXPECT_USABLE(g);
        EXPECT_OK(tutti_barrier(g, NULL));
        while (atomic_load(c->taken) == 0) { /* bounded by the alarm of test_processes */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        EXPECT_OK(tutti_finalize(&e));
    }
}

struct difference {
    const char *store;
    const tutti_config *odd; /* the configuration of rank 1 */
    const tutti_config *even;
    const char *word;
    int32_t odd_size;
    int32_t even_size;
};

static void differ(int32_t rank, void *user)
{
    const struct difference *d = user;
    tutti_config c = rank == 1 ? *d->odd : *d->even;
    tutti_error e;
    c.rank = rank;
    c.world_size = rank == 1 ? d->odd_size : d->even_size;
    c.store = d->store;
    c.timeout_ms = LONG_MS;
    tutti_status status = join(&c, &e);
    test_status(__FILE__, __LINE__, d->word, status, TUTTI_MISMATCH, &e, d->word);
    /* the suspect: rank 1 names another rank, the others name rank 1 */
    EXPECT(rank == 1 ? e.suspect >= 0 && e.suspect != 1 : e.suspect == 1);
    EXPECT(strstr(e.message, "rank 1 ") != NULL);
    go_on();
}

static void differences(void)
{
    static const char *const small[] = {"engine.window=32K", NULL};
    const struct difference cases[] = {
        {.odd = TUTTI_CONFIG(.lanes = 3), .even = TUTTI_CONFIG(.lanes = 4), .word = "4 lanes"},
        {.odd = TUTTI_CONFIG(.backend = "shm"), .even = TUTTI_CONFIG(.backend = "local"), .word = "shm"},
        {.odd = TUTTI_CONFIG(.backend = "shm"), .even = TUTTI_CONFIG(.backend = "auto"), .word = "auto"},
        {.odd = TUTTI_CONFIG(.settings = small), .even = TUTTI_CONFIG(.flags = 0), .word = "engine.window"},
        {.odd = TUTTI_CONFIG(.flags = 0), .even = TUTTI_CONFIG(.flags = 0), .word = "2 ranks", .odd_size = 2},
        {.odd = TUTTI_CONFIG(.flags = 0), .even = TUTTI_CONFIG(.flags = 0), .word = "5 ranks", .odd_size = 5},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct difference d = cases[i];
        char store[80];
        d.odd_size = d.odd_size ? d.odd_size : 3;
        d.even_size = 3;
        test_store_name(store, sizeof(store));
        d.store = store;
        test_processes(d.word, 3, differ, &d);
    }
}

/* A rank asks for a backend that joins threads only; all ranks get the cause. */
static void threads_only(int32_t rank, void *user)
{
    tutti_error e;
    tutti_status status =
        join(TUTTI_CONFIG(.rank = rank, .world_size = 3, .store = user, .timeout_ms = LONG_MS, .backend = "local"), &e);
    test_status(__FILE__, __LINE__, "local for processes", status, TUTTI_NOT_AVAILABLE, &e, "shm");
    go_on();
}

static void unknown_backend(int32_t rank, void *user)
{
    tutti_error e;
    tutti_status status = join(
        TUTTI_CONFIG(.rank = rank, .world_size = 3, .store = user, .timeout_ms = LONG_MS, .backend = "Pigeon"), &e);
    test_status(__FILE__, __LINE__, "an unknown backend", status, TUTTI_NOT_FOUND, &e, "Pigeon");
    go_on();
}

/* A backend that only rank 1 cannot use: every rank names the backend, the rank, and the cause. */
static void unavailable_backend(int32_t rank, void *user)
{
    tutti_error e;
    tutti_group *g = NULL;
    if (rank == 1) {
        setenv("TUTTI_PLUGIN_PATH", "/no/such/folder", 1);
    }
    const char *word = "backend gloo is not available on rank "; /* 0 in a build without it */
    EXPECT_ERROR(&e, TUTTI_NOT_AVAILABLE, word,
                 tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = 3, .store = user, .backend = "gloo"), &g, &e));
    EXPECT(strstr(e.message, "tutti-gloo.so") && strcmp(e.backend, "gloo") == 0);
    go_on();
}

static void at_once(int32_t rank, void *user)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_status status = tutti_init(
        TUTTI_CONFIG(.rank = rank, .world_size = 3, .store = user, .timeout_ms = LONG_MS, .backend = "shm"), &g, &e);
    test_status(__FILE__, __LINE__, "joining ranks that end at once", status, TUTTI_OK, &e, "");
    EXPECT_OK(tutti_finalize(&e));
}

int main(void)
{
    char store[80];
    test_stand_alone();
    test_store_name(store, sizeof(store));
    test_processes("missing ranks", 2, missing, store);
    test_processes("missing server", 2, missing_server, (void *)(uintptr_t) "tcp://127.0.0.1:9");
    atomic_int *taken = mmap(NULL, sizeof(*taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        test_store_name(store, sizeof(store));
        struct claims claims = {.store = store, .taken = taken};
        atomic_store(taken, 0);
        test_processes("one rank claimed twice", 3, twice, &claims);
        EXPECT(atomic_load(taken) == 1);
    }
    munmap(taken, sizeof(*taken));
    differences();
    test_store_name(store, sizeof(store));
    test_processes("local for processes", 3, threads_only, store);
    test_store_name(store, sizeof(store));
    test_processes("an unknown backend", 3, unknown_backend, store);
    test_store_name(store, sizeof(store));
    test_processes("an unavailable backend", 3, unavailable_backend, store);
    for (int i = 0; i < 10; i++) {
        test_store_name(store, sizeof(store));
        test_processes("joining ranks that end at once", 3, at_once, store);
    }
    return test_result();
}
