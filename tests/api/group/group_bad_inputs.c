/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tutti_group_create, tutti_group_split, tutti_run_threads and the functions that read a group refuse. A refusal
 * has no effect on other ranks: the parent still works, and so does the next good call, even if only one rank made the
 * bad one.
 */
#include "api/check.h"

#include <stdint.h>
#include <tutti/backend.h>

#define RANKS 3

static tutti_group *const untouched = (tutti_group *)(uintptr_t)0x1234;

/* All ranks make a group of all, in turned order, so that the members' counters are compared too. */
static void make_and_use(tutti_group *world)
{
    const int32_t turned[RANKS] = {2, 0, 1};
    tutti_error e;
    tutti_group *g = NULL;
    EXPECT_OK(tutti_group_create(world, turned, RANKS, NULL, &g, &e));
    EXPECT(tutti_group_size(g) == RANKS && tutti_group_global_rank(g, tutti_group_rank(g)) == tutti_group_rank(world));
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

static void bad_create(tutti_group *world)
{
    tutti_error e;
    tutti_group *g = untouched;
    int32_t me = tutti_group_rank(world);
    const int32_t all[RANKS] = {2, 0, 1};
    const int32_t with_other[2] = {me, (me + 1) % RANKS};
#define BAD(word, ...) EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, (word), tutti_group_create(__VA_ARGS__, &g, &e))
    BAD("NULL", NULL, all, RANKS, NULL);
    BAD("empty", world, NULL, RANKS, NULL);
    BAD("empty", world, all, 0, NULL);
    BAD("empty", world, all, -1, NULL);
    BAD("empty", world, NULL, 0, NULL);
    BAD("ranks[1] is 3", world, ((int32_t[]){me, RANKS}), 2, NULL);
    BAD("ranks[0] is -1", world, ((int32_t[]){-1, me}), 2, NULL);
    BAD("ranks[0] is -2147483648", world, ((int32_t[]){INT32_MIN}), 1, NULL);
    BAD("ranks[2] is 2147483647", world, ((int32_t[]){me, with_other[1], INT32_MAX}), 3, NULL);
    BAD("twice", world, ((int32_t[]){me, me}), 2, NULL);
    BAD("twice", world, ((int32_t[]){with_other[1], me, with_other[1]}), 3, NULL);
    BAD("twice", world, ((int32_t[]){0, 1, 2, 0}), RANKS + 1, NULL);
    BAD("only members call", world, &with_other[1], 1, NULL);
    BAD("config.size", world, all, RANKS, (&(tutti_config){.size = 8}));
    BAD("config.flags", world, all, RANKS, TUTTI_CONFIG(.flags = 4));
    BAD("parent", world, all, RANKS, TUTTI_CONFIG(.world_size = RANKS));
    BAD("parent", world, all, RANKS, TUTTI_CONFIG(.store = "memory:x"));
    BAD("config.lanes", world, all, RANKS, TUTTI_CONFIG(.lanes = 17));
    BAD("config.lanes", world, all, RANKS, TUTTI_CONFIG(.lanes = -1));
    BAD("config.timeout_ms", world, all, RANKS, TUTTI_CONFIG(.timeout_ms = -2));
    BAD("no.such", world, all, RANKS, TUTTI_CONFIG(.settings = ((const char *const[]){"no.such=1", NULL})));
    BAD("engine.window", world, all, RANKS, TUTTI_CONFIG(.settings = ((const char *const[]){"engine.window=3", NULL})));
#undef BAD
    EXPECT(g == untouched);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_create(world, all, RANKS, NULL, NULL, &e));
    EXPECT(e.operation == TUTTI_OP_CREATE && e.rank == me);
    EXPECT(tutti_group_create(world, all, 0, NULL, &g, NULL) == TUTTI_INVALID_ARGUMENT);
}

/* A configuration that only all members together can check: all ranks get the error, and none hangs. */
static void refused_by_all(tutti_group *world)
{
    const int32_t all[RANKS] = {0, 1, 2};
    tutti_error e;
    tutti_group *g = untouched;
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "pigeon",
                 tutti_group_create(world, all, RANKS, TUTTI_CONFIG(.backend = "pigeon"), &g, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "pigeon",
                 tutti_group_split(world, 0, 0, TUTTI_CONFIG(.backend = "pigeon"), &g, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_AVAILABLE, "rocm",
                 tutti_group_create(world, all, RANKS, TUTTI_CONFIG(.device = "rocm"), &g, &e));
    int32_t lanes = tutti_group_rank(world) == 1 ? 2 : 3;
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "2 lanes",
                 tutti_group_create(world, all, RANKS, TUTTI_CONFIG(.lanes = lanes), &g, &e));
    EXPECT(e.suspect >= 0 && e.suspect < RANKS && e.suspect != tutti_group_rank(world));
    EXPECT(g == untouched);
}

static void bad_split(tutti_group *world)
{
    tutti_error e;
    tutti_group *g = untouched;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_split(NULL, 0, 0, NULL, &g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_split(world, 0, 0, NULL, NULL, &e));
    EXPECT(e.operation == TUTTI_OP_SPLIT && e.rank == tutti_group_rank(world));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-2", tutti_group_split(world, -2, 0, NULL, &g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-2147483648", tutti_group_split(world, INT32_MIN, 0, NULL, &g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "config.lanes",
                 tutti_group_split(world, 0, 0, TUTTI_CONFIG(.lanes = 99), &g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "config.flags",
                 tutti_group_split(world, 0, 0, TUTTI_CONFIG(.flags = 1), &g, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "parent",
                 tutti_group_split(world, 0, 0, TUTTI_CONFIG(.rank = 0, .world_size = 1), &g, &e));
    EXPECT(g == untouched);
}

/* Extreme colours and keys are good ones; equal keys go by rank. */
static void split_order(tutti_group *world)
{
    tutti_error e;
    int32_t me = tutti_group_rank(world);
    tutti_group *g = untouched;
    EXPECT_OK(tutti_group_split(world, INT32_MAX, me == 2 ? INT32_MIN : INT32_MAX, NULL, &g, &e));
    EXPECT(tutti_group_rank(g) == (me == 2 ? 0 : me + 1) && tutti_group_size(g) == RANKS);
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_destroy(g, &e));
    g = untouched;
    EXPECT_OK(tutti_group_split(world, -1, 7, NULL, &g, &e)); /* no rank joins a group */
    EXPECT(g == NULL);
    EXPECT_OK(tutti_group_split(world, me, 0, NULL, &g, &e)); /* each rank alone */
    EXPECT(tutti_group_size(g) == 1 && tutti_group_global_rank(g, 0) == me && tutti_group_local_rank(g, me) == 0);
    EXPECT_USABLE(g);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

static void readers(tutti_group *world)
{
    tutti_error e;
    char text[8] = "1234567";
    size_t needed = 0;
    EXPECT(tutti_group_global_rank(world, -1) == -1 && tutti_group_global_rank(world, RANKS) == -1);
    EXPECT(tutti_group_local_rank(world, -1) == -1 && tutti_group_local_rank(world, INT32_MAX) == -1);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "NULL", tutti_group_describe(world, NULL, 5, &needed, &e));
    EXPECT(needed == 0);
    EXPECT_OK(tutti_group_describe(world, NULL, 0, &needed, &e));
    EXPECT(needed > sizeof(text));
    EXPECT_OK(tutti_group_describe(world, text, sizeof(text), &needed, NULL));
    EXPECT(strlen(text) == sizeof(text) - 1 && needed > sizeof(text));
    EXPECT_OK(tutti_group_error(world, NULL));
    tutti_null_record record = {.size = sizeof(record)};
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "local", tutti_null_recorded(world, 0, &record, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "record", tutti_null_recorded(world, 0, NULL, &e));
    record.size = 0;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "size", tutti_null_recorded(world, 0, &record, &e));
}

static tutti_status ranks(tutti_group *world, void *user)
{
    (void)user;
    bad_create(world);
    EXPECT_USABLE(world);
    make_and_use(world);
    bad_split(world);
    split_order(world);
    refused_by_all(world);
    readers(world);
    make_and_use(world);
    EXPECT_USABLE(world);
    return TUTTI_OK;
}

static void bad_threads(void)
{
    tutti_error e;
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "0", tutti_run_threads(0, ranks, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-1", tutti_run_threads(-1, ranks, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "2147483647", tutti_run_threads(INT32_MAX, ranks, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "function", tutti_run_threads(2, NULL, NULL, &e));
}

/* What a group refuses whose backend does not communicate. */
static void null_backend(void)
{
    tutti_error e;
    tutti_group *g = NULL;
    tutti_group *child = untouched;
    tutti_null_record record = {.size = sizeof(record)};
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "null", .rank = 1, .world_size = 4), &g, &e));
    EXPECT_ERROR(&e, TUTTI_UNSUPPORTED, "group_create", tutti_group_split(g, 0, 0, NULL, &child, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "-1", tutti_null_recorded(g, -1, &record, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "0", tutti_null_recorded(g, 0, &record, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "only members", tutti_group_create(g, &(int32_t){3}, 1, NULL, &child, &e));
    EXPECT(child == untouched);
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT_OK(tutti_null_recorded(g, 0, &record, &e));
    EXPECT(record.operation == TUTTI_OP_BARRIER);
    EXPECT_OK(tutti_group_destroy(g, &e));
}

int main(void)
{
    bad_threads();
    test_ranks(RANKS, ranks);
    null_backend();
    EXPECT_OK(tutti_finalize(NULL));
    return test_result();
}
