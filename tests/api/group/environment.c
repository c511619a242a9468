/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank and world size from the environment: each variable alone, pairs from one launcher, pairs from two, and stray
 * values beside a complete pair. The backend is null, which contacts no other rank.
 */
#include "init_processes.h"

static const char *const ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "WORLD_RANK"}; /* in this order they count */
static const char *const sizes[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"};

/* Sets "NAME=VALUE" strings, closed by NULL, and nothing else. */
static void set(const char *const *entries)
{
    test_stand_alone();
    setenv("TUTTI_STORE", "memory:environment", 1);
    for (; *entries; entries++) {
        char name[40];
        const char *equals = strchr(*entries, '=');
        snprintf(name, sizeof(name), "%.*s", (int)(equals - *entries), *entries);
        setenv(name, equals + 1, 1);
    }
}

static void expect_world(int line, int32_t rank, int32_t size)
{
    tutti_error e;
    tutti_group *g = NULL;
    test_status(__FILE__, line, "tutti_init", tutti_init(TUTTI_CONFIG(.backend = "null"), &g, &e), TUTTI_OK, &e, "");
    if (tutti_group_rank(g) != rank || tutti_group_size(g) != size) {
        fprintf(stderr, "rank %d of %d instead of %d of %d\n", tutti_group_rank(g), tutti_group_size(g), rank, size);
        test_fail(__FILE__, line, "another world");
    }
    tutti_group_destroy(g, NULL);
}

static void expect_refused(int line, const char *one, const char *two)
{
    tutti_error e;
    tutti_group *g = NULL;
    test_status(__FILE__, line, "tutti_init", tutti_init(TUTTI_CONFIG(.backend = "null"), &g, &e),
                TUTTI_INVALID_ARGUMENT, &e, one);
    if (!strstr(e.message, two)) {
        fprintf(stderr, "no %s in: %s\n", two, e.message);
        test_fail(__FILE__, line, "another sentence");
    }
}

#define WORLD(rank, size, ...) (set((const char *const[]){__VA_ARGS__, NULL}), expect_world(__LINE__, rank, size))
#define REFUSED(one, two, ...) (set((const char *const[]){__VA_ARGS__, NULL}), expect_refused(__LINE__, one, two))

/* A rank without a size, or a size without a rank: the error names the missing variable. The world is not a silent
 * world of one. */
static void each_alone(void)
{
    REFUSED("RANK is set", "WORLD_SIZE", "RANK=0");
    REFUSED("WORLD_RANK is set", "WORLD_SIZE", "WORLD_RANK=0");
    REFUSED("WORLD_SIZE is set", "RANK", "WORLD_SIZE=1");
    REFUSED("OMPI_COMM_WORLD_RANK is set", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK=0");
    REFUSED("OMPI_COMM_WORLD_SIZE is set", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE=1");
    REFUSED("TUTTI_RANK is set", "TUTTI_WORLD_SIZE", "TUTTI_RANK=0");
    REFUSED("TUTTI_WORLD_SIZE is set", "TUTTI_RANK", "TUTTI_WORLD_SIZE=1", "RANK=0", "WORLD_SIZE=1");
}

/* Every rank variable with every size variable, and each of them with a bad value. */
static void every_pair(void)
{
    for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            char rank[40];
            char size[40];
            snprintf(size, sizeof(size), "%s=5", sizes[s]);
            snprintf(rank, sizeof(rank), "%s=2", ranks[r]);
            WORLD(2, 5, rank, size);
            snprintf(rank, sizeof(rank), "%s=5", ranks[r]);
            REFUSED(ranks[r], sizes[s], rank, size);
            snprintf(rank, sizeof(rank), "%s=two", ranks[r]);
            REFUSED(ranks[r], "\"two\"", rank, size);
            snprintf(rank, sizeof(rank), "%s=2", ranks[r]);
            snprintf(size, sizeof(size), "%s=0", sizes[s]);
            REFUSED(sizes[s], "\"0\"", rank, size);
        }
    }
    WORLD(1, 3, "OMPI_COMM_WORLD_RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2");
    REFUSED("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK=1", "WORLD_SIZE=3", "LOCAL_RANK=2",
            "OMPI_COMM_WORLD_LOCAL_SIZE=2");
}

/* Of several the first in the order counts. */
static void in_order(void)
{
    WORLD(0, 9, "RANK=0", "OMPI_COMM_WORLD_RANK=1", "WORLD_SIZE=9");
    WORLD(1, 9, "OMPI_COMM_WORLD_RANK=1", "WORLD_RANK=2", "WORLD_SIZE=9");
    WORLD(1, 8, "OMPI_COMM_WORLD_RANK=1", "WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=8");
    WORLD(0, 9, "RANK=0", "WORLD_SIZE=9", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_RANK=1"); /* both are whole */
    WORLD(3, 7, "TUTTI_RANK=3", "TUTTI_WORLD_SIZE=7", "RANK=0", "WORLD_SIZE=9", "OMPI_COMM_WORLD_RANK=1",
          "OMPI_COMM_WORLD_SIZE=8");
    WORLD(2, 4, "PMI_RANK=2", "PMI_SIZE=4", "WORLD_RANK=3");
    REFUSED("RANK is 1, but WORLD_RANK is 0", "both mean the rank", "RANK=1", "WORLD_RANK=0", "WORLD_SIZE=2");
}

/* One launcher has set both values. A single value of another launcher is an error only if it contradicts them. */
static void strays(void)
{
    WORLD(1, 4, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "WORLD_RANK=3");
    WORLD(1, 4, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "WORLD_RANK=3", "WORLD_SIZE=4");
    WORLD(1, 4, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "RANK=1");
    WORLD(1, 4, "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "WORLD_SIZE=4");
    REFUSED("RANK is 0, but OMPI_COMM_WORLD_RANK is 1", "set WORLD_SIZE as well, or unset RANK",
            "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "RANK=0");
    REFUSED("WORLD_SIZE is 8, but OMPI_COMM_WORLD_SIZE is 4", "set RANK as well, or unset WORLD_SIZE",
            "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "WORLD_SIZE=8");
    WORLD(2, 3, "PMI_RANK=2", "PMI_SIZE=3", "OMPI_COMM_WORLD_RANK=2", "WORLD_SIZE=3"); /* all agree */
    REFUSED("OMPI_COMM_WORLD_RANK is 1, but PMI_RANK is 2", "unset", "PMI_RANK=2", "PMI_SIZE=3",
            "OMPI_COMM_WORLD_RANK=1");
    REFUSED("WORLD_SIZE is \"many\"", "number", "PMI_RANK=2", "PMI_SIZE=3", "WORLD_SIZE=many");
}

/* If neither launcher names a store, the user must. Without one, the error says how. */
static void store_address(void)
{
    set((const char *const[]){"RANK=1", "OMPI_COMM_WORLD_SIZE=2", NULL});
    unsetenv("TUTTI_STORE");
    expect_refused(__LINE__, "TUTTI_STORE", "cannot choose a rendezvous store");
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
    expect_world(__LINE__, 1, 2);
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
}

int main(void)
{
    each_alone();
    every_pair();
    in_order();
    strays();
    store_address();
    EXPECT_OK(tutti_finalize(NULL));
    return test_result();
}
