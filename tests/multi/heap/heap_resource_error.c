/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 timeout=120 trees=release,debug,address,undefined */
/*
 * One rank runs out of descriptors in tutti_alloc and tutti_register, with each limit from none to enough. All ranks
 * get NO_RESOURCE, which names that rank, and no rank waits for its descriptor. The group and the memory are unchanged.
 * Each rank is tested.
 */
#include "heap_support.h"

#include <stdlib.h>

#include "descriptors.h"
#include "time_limits.h"

#define MOST  64 /* descriptors that a call may need */
#define BYTES ((size_t)300000)

/* The call that is made with few descriptors. */
typedef tutti_status trial(tutti_group *g, void **memory);

static tutti_status allocate(tutti_group *g, void **memory)
{
    return tutti_alloc(g, BYTES, memory, &err);
}

static tutti_status share(tutti_group *g, void **memory)
{
    return tutti_register(g, *memory, BYTES, &err);
}

/* Returns how many failures it took. */
static int until_it_works(tutti_group *g, int victim, trial *attempt, void **memory)
{
    const int rank = tutti_group_rank(g);
    for (int more = 0; more < MOST; more++) {
        struct rlimit before;
        EXPECT(rank != victim || leave_descriptors(more, &before));
        const tutti_status status = attempt(g, memory);
        EXPECT(rank != victim || setrlimit(RLIMIT_NOFILE, &before) == 0);
        if (status == TUTTI_OK) {
            check_sum(g, *memory, BYTES / sizeof(float));
            return more;
        }
        char name[24];
        snprintf(name, sizeof(name), "rank %d", victim);
        EXPECT(status == TUTTI_NO_RESOURCE && strstr(err.message, name) && err.suspect == victim);
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.error = &err)));
    }
    EXPECT(!"it needs more descriptors than that");
    return MOST;
}

int main(void)
{
    tutti_group *g = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.timeout_ms = LONG_MS), &g,
                         &err)); /* if one call took it, the test would take too long */
    const int last = tutti_group_size(g) - 1;
    void *allocated = NULL;
    EXPECT(until_it_works(g, last, allocate, &allocated) > 1);
    for (int victim = 0; victim <= last; victim++) {
        void *memory = malloc(BYTES);
        EXPECT(until_it_works(g, victim, share, &memory) > 1);
        EXPECT_OK(tutti_unregister(g, memory, &err));
        free(memory);
    }
    EXPECT_OK(tutti_free(g, allocated, &err));
    EXPECT_OK(tutti_finalize(&err));
    return failures != 0;
}
