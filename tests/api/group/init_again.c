/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=3 timeout=120 trees=release,debug,address,undefined */
/*
 * Worlds at an address that has been used before: ranks meet that have made different numbers of worlds there, in
 * stores that do not exist any more, or in another store with the same `user`.
 */
#include "init_processes.h"

#include "store_table.h"

enum { JOBS = 3, SHORT_MS = 500 };

static void use(const tutti_config *config)
{
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_OK, "", tutti_init(config, &g, &e));
    if (g) {
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.error = &e)));
        EXPECT_OK(tutti_group_destroy(g, &e));
    }
}

static void join(int32_t rank, void *url)
{
    use(TUTTI_CONFIG(.rank = rank, .world_size = 2, .store = url, .timeout_ms = LONG_MS));
}

/* Rank 0 is this process, and rank 1 a new one. */
static void join_with_new_process(void *url)
{
    const pid_t pid = fork();
    if (pid == 0) {
        join(1, url);
        _exit(test_result());
    }
    int status = -1;
    join(0, url);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Rank 0 goes on, and has a new process as rank 1 for each job. */
static void new_jobs(int32_t rank, void *url)
{
    (void)rank;
    for (int job = 0; job < JOBS; job++) {
        join_with_new_process(url);
        EXPECT_OK(tutti_finalize(NULL));
    }
}

/* Rank 0 has given up several times before rank 1 comes. */
static void late_worker(int32_t rank, void *url)
{
    for (int i = 0; i < JOBS; i++) {
        tutti_group *g = NULL;
        tutti_error e;
        EXPECT_ERROR(
            &e, TUTTI_TIMEOUT, "missing: rank 1",
            tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = 2, .store = url, .timeout_ms = SHORT_MS), &g, &e));
    }
    join_with_new_process(url);
}

struct view {
    struct table *table;
};

static tutti_status view_set(void *user, const char *key, const void *value, size_t length)
{
    return table_set(((struct view *)user)->table, key, value, length);
}

static tutti_status view_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                             int64_t timeout_ms)
{
    return table_get(((struct view *)user)->table, key, value, capacity, length, timeout_ms);
}

/* A new store of the application for each job, which on rank 0 has the address of the last one. */
static void new_callbacks(int32_t rank, void *user)
{
    struct table **tables = user;
    struct view views[JOBS];
    for (int job = 0; job < JOBS; job++) {
        struct view *view = &views[rank == 0 ? 0 : job];
        view->table = tables[job];
        const tutti_store_callbacks callbacks = {
            .size = sizeof(callbacks), .user = view, .set = view_set, .get = view_get};
        use(TUTTI_CONFIG(.rank = rank, .world_size = 2, .store_callbacks = &callbacks, .timeout_ms = LONG_MS));
    }
}

static struct table *other_table;

static tutti_status other_set(void *user, const char *key, const void *value, size_t length)
{
    (void)user;
    return table_set(other_table, key, value, length);
}

static tutti_status other_get(void *user, const char *key, void *value, size_t capacity, size_t *length,
                              int64_t timeout_ms)
{
    (void)user;
    return table_get(other_table, key, value, capacity, length, timeout_ms);
}

/* Two stores with one `user`, in turn: their functions tell them apart. */
static void stores_in_turn(int32_t rank, void *user)
{
    const tutti_store_callbacks stores[] = {
        {.size = sizeof(stores[0]), .user = user, .set = view_set, .get = view_get},
        {.size = sizeof(stores[0]), .user = user, .set = other_set, .get = other_get}};
    for (int job = 0; job < 4; job++) {
        use(TUTTI_CONFIG(.rank = rank, .world_size = 2, .store_callbacks = &stores[job % 2], .timeout_ms = LONG_MS));
    }
}

int main(void)
{
    char url[80];
    struct table *tables[JOBS];
    test_stand_alone();
    test_store_name(url, sizeof(url));
    test_processes("new jobs", 1, new_jobs, url);
    test_store_name(url, sizeof(url));
    test_processes("a late worker", 1, late_worker, url);
    for (int job = 0; job < JOBS; job++) {
        tables[job] = table_make();
    }
    test_processes("new callbacks", 2, new_callbacks, tables);
    for (int job = 0; job < JOBS; job++) {
        munmap(tables[job], sizeof(*tables[job]));
    }
    struct view view = {.table = table_make()};
    other_table = table_make();
    test_processes("two stores in turn", 2, stores_in_turn, &view);
    munmap(view.table, sizeof(*view.table));
    munmap(other_table, sizeof(*other_table));
    return test_result();
}
