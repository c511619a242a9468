/* SPDX-License-Identifier: BSD-3-Clause */
/* Which world of a store a process joins next: after worlds of its own, in a new store at the same address, and as the
 * successor of a process that has ended. */
#include "core/membership/world_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
/* clang-format off: cmocka needs the ones above first */
#include <cmocka.h>
/* clang-format on */

#include "core/group/records/hello.h"
#include "core/membership/same_host.h"
#include "store/store.h"
#include "time_limits.h"

enum { RANKS = 3 };

#define CODE ".2961e24b" /* of the name "x" */

/* The processes whose records lie in the store. */
static struct tti_hello alive;
static struct tti_hello ended;

static int find_processes(void **state)
{
    tutti_error error;
    int ends[2];
    (void)state;
    tti_proc_self(&alive.process);
    if (tti_site_find("", &alive.site, &error) != TUTTI_OK || pipe(ends) != 0) {
        return 1;
    }
    ended = alive;
    const pid_t pid = fork();
    if (pid == 0) {
        struct tti_proc_id own;
        tti_proc_self(&own);
        _exit(write(ends[1], &own, sizeof(own)) != (ssize_t)sizeof(own));
    }
    int status = -1;
    const bool found = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 &&
                       read(ends[0], &ended.process, sizeof(ended.process)) == (ssize_t)sizeof(ended.process);
    close(ends[0]);
    close(ends[1]);
    return !found;
}

static struct tti_store *open_store(const char *url)
{
    struct tti_store *store;
    assert_int_equal(tti_store_open(url, true, LONG_MS, &store, NULL), TUTTI_OK);
    return store;
}

static void expect(struct tti_store *store, const char *url, const char *setting, int32_t rank, const char *want)
{
    char name[64];
    tutti_error error;
    assert_int_equal(tti_world_name(store, url, setting, rank, RANKS, true, name, sizeof(name), &error), TUTTI_OK);
    assert_string_equal(name, want);
}

static void put(struct tti_store *store, const char *world, int32_t rank, const struct tti_hello *hello)
{
    char key[80];
    snprintf(key, sizeof(key), "%s/hello/%d", world, rank);
    assert_int_equal(tti_store_set(store, key, hello, sizeof(*hello), NULL), TUTTI_OK);
}

/* A store in which an earlier process has been rank 0. */
static struct tti_store *open_used(const char *url)
{
    const uint64_t number = (uintptr_t)url;
    struct tti_store *store = open_store(url);
    assert_int_equal(tti_store_set(store, "instance/0", &number, sizeof(number), NULL), TUTTI_OK);
    return store;
}

static void test_counts(void **state)
{
    static const char url[] = "memory:counts";
    char name[64];
    (void)state;
    struct tti_store *store = open_store(url);
    expect(store, url, "", 0, "w0");
    expect(store, url, "", 0, "w1");
    expect(store, url, "", 1, "w0");
    expect(store, url, "x", 0, "w0" CODE);
    expect(store, url, "x", 0, "w1" CODE);
    assert_int_equal(tti_world_name(store, url, "", 0, RANKS, false, name, sizeof(name), NULL), TUTTI_OK);
    assert_string_equal(name, "w0");
    tti_store_release(store);
    store = open_store(url); /* another one */
    expect(store, url, "", 0, "w0");
    expect(store, url, "x", 0, "w0" CODE);
    tti_store_release(store);
}

static void test_successor(void **state)
{
    static const char url[] = "memory:successor";
    (void)state;
    struct tti_store *store = open_used(url);
    put(store, "w0", 0, &ended);
    put(store, "w0", 1, &alive);
    put(store, "w1", 0, &ended);
    put(store, "w2", 1, &alive);
    expect(store, url, "", 0, "w2");
    expect(store, url, "", 0, "w3");
    tti_store_release(store);
}

/* Nothing in it belongs to a process that lives, so all ranks skip it. */
static void test_old_world(void **state)
{
    static const char url[] = "memory:old_world";
    (void)state;
    struct tti_store *store = open_used(url);
    put(store, "w0", 1, &ended);
    put(store, "w0", 2, &ended);
    expect(store, url, "", 0, "w1");
    tti_store_release(store);
}

/* A rank of the new job has ended. The others wait in its world, and report that. */
static void test_dead_peer(void **state)
{
    static const char url[] = "memory:dead_peer";
    (void)state;
    struct tti_store *store = open_used(url);
    put(store, "w0", 1, &ended);
    put(store, "w0", 2, &alive);
    expect(store, url, "", 0, "w0");
    tti_store_release(store);
}

/* A process that has joined a world of another name there is no successor. */
static void test_own_store(void **state)
{
    static const char url[] = "memory:own_store";
    (void)state;
    struct tti_store *store = open_store(url);
    expect(store, url, "", 0, "w0");
    put(store, "w0" CODE, 1, &ended);
    expect(store, url, "x", 0, "w0" CODE);
    tti_store_release(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),    cmocka_unit_test(test_successor), cmocka_unit_test(test_old_world),
        cmocka_unit_test(test_dead_peer), cmocka_unit_test(test_own_store),
    };
    return cmocka_run_group_tests(tests, find_processes, NULL);
}
