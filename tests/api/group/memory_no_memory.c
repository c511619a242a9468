/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank has no memory for one moment in tutti_alloc, tutti_register and tutti_unregister: at its first allocation, at
 * its second, and so on. Either all ranks succeed, or all fail: with that rank's error, and the group works, or because
 * the group has failed. No rank waits for the one without memory. With ordinary memory (local) and with a heap (shm).
 * tutti-test: trees=release,debug,undefined
 */
#include "api/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define RANKS            3
#define VICTIM           1
#define BYTES            ((size_t)20000)
#define ALLOCATIONS_MOST 1000

static _Thread_local int32_t allocations_left; /* until one fails; 0: none does */

static bool allocation_fails(void)
{
    return allocations_left > 0 && --allocations_left == 0;
}

#include "allocator.h"
#include "time_limits.h"

static const char *backend; /* of the groups that a case makes */
static tutti_status statuses[RANKS];
static bool done; /* the victim has made fewer allocations than that */

/* The call in which an allocation fails. */
typedef tutti_status trial(tutti_group *g, void **memory, tutti_error *error);

static tutti_status allocate(tutti_group *g, void **memory, tutti_error *error)
{
    return tutti_alloc(g, BYTES, memory, error);
}

static tutti_status share(tutti_group *g, void **memory, tutti_error *error)
{
    return tutti_register(g, *memory, BYTES, error);
}

static tutti_status unshare(tutti_group *g, void **memory, tutti_error *error)
{
    return tutti_unregister(g, *memory, error);
}

static trial *attempt;
static int32_t allocation;

static bool is_expected(tutti_status status)
{
    switch (status) {
    case TUTTI_OK:
    case TUTTI_NO_MEMORY:
    case TUTTI_NO_RESOURCE: /* a thread, or a place in a table, that needs memory */
    case TUTTI_REVOKED:
        return true;
    case TUTTI_SYSTEM:
        return attempt == unshare; /* the range is unregistered, but has not become private */
    default:
        return false;
    }
}

static void check(tutti_group *own, int32_t rank, void **memory)
{
    tutti_error e;
    allocations_left = rank == VICTIM ? allocation : 0;
    statuses[rank] = attempt(own, memory, &e);
    const bool spared = allocations_left > 0;
    allocations_left = 0;
    EXPECT(statuses[rank] == TUTTI_OK || e.suspect == VICTIM);
    /* If a rank has left the call alone, the others meet this barrier there. */
    const tutti_status next = tutti_barrier(own, TUTTI_CALL(.timeout_ms = LONG_MS, .error = &e));
    EXPECT(next == TUTTI_OK || next == TUTTI_REVOKED);
    EXPECT(statuses[rank] != TUTTI_OK || next == TUTTI_OK);
    if (rank == VICTIM) {
        done = spared;
        EXPECT(!spared || statuses[rank] == TUTTI_OK);
    }
}

static tutti_status rank_function(tutti_group *world, void *user)
{
    tutti_group *own = NULL;
    tutti_error e;
    const int32_t rank = tutti_group_rank(world);
    /* not of malloc, which would use it again: see SYSTEM above */
    void *const pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *memory = attempt == allocate ? NULL : pages;
    (void)user;
    EXPECT(pages != MAP_FAILED);
    EXPECT_OK(tutti_group_split(world, 0, rank, TUTTI_CONFIG(.backend = backend, .timeout_ms = LONG_MS), &own, &e));
    if (attempt == unshare) {
        EXPECT_OK(tutti_register(own, memory, BYTES, &e));
    }
    check(own, rank, &memory);
    EXPECT_OK(tutti_barrier(world, NULL));
    for (int32_t r = 0; r < RANKS; r++) {
        EXPECT((statuses[r] == TUTTI_OK) == (statuses[0] == TUTTI_OK));
        EXPECT(is_expected(statuses[r]));
    }
    EXPECT_OK(tutti_barrier(world, NULL));
    EXPECT_OK(tutti_group_destroy(own, &e)); /* with what is allocated and registered */
    munmap(pages, BYTES);
    return TUTTI_OK;
}

int main(void)
{
    static const char *const backends[] = {"local", "shm"};
    static trial *const trials[] = {allocate, share, unshare};
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        for (size_t k = 0; k < sizeof(trials) / sizeof(trials[0]); k++) {
            backend = backends[i];
            attempt = trials[k];
            allocation = 0;
            do {
                allocation++;
                test_ranks(RANKS, rank_function);
            } while (!done && allocation < ALLOCATIONS_MOST);
            EXPECT(allocation < ALLOCATIONS_MOST);
        }
    }
    return test_result();
}
