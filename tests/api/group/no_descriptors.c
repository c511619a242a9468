/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that runs out of descriptors while it joins: the limit rises by one until the join works. Every failure is
 * NO_RESOURCE with a message. It does not wait for the deadline, and leaves no descriptor open. After a success the
 * group works. Where the process also serves the store, the server runs out together with its client.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/check.h"
#include "descriptors.h"
#include "time_limits.h"

#define MOST 64 /* descriptors that a group of one may need */

/* Returns how many it took. */
static int join(const char *backend, const char *scheme)
{
    for (int more = 0; more < MOST; more++) {
        struct rlimit before;
        char store[80];
        tutti_group *g = NULL;
        tutti_error e;
        snprintf(store, sizeof(store), "%s:no-descriptors-%d-%s-%d", scheme, (int)getpid(), backend, more);
        const int open = open_descriptors();
        EXPECT(leave_descriptors(more, &before));
        const tutti_status status = tutti_init(
            TUTTI_CONFIG(.backend = backend, .world_size = 1, .store = store, .timeout_ms = LONG_MS), &g, &e);
        EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
        if (status == TUTTI_OK) {
            EXPECT_OK(tutti_barrier(g, NULL));
            EXPECT_OK(tutti_group_destroy(g, &e));
            EXPECT_OK(tutti_finalize(&e));
            return more;
        }
        test_status(__FILE__, __LINE__, store, status, TUTTI_NO_RESOURCE, &e, "open files");
        EXPECT(e.message[0] != '\0' && !g);
        EXPECT(open_descriptors() == open);
    }
    EXPECT(!"a group of one needs more descriptors than that");
    return MOST;
}

int main(void)
{
    tutti_group *g = NULL;
    tutti_error e;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "shm", .world_size = 1), &g, &e)); /* what a process opens once */
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(join("shm", "unix") > 3);
    EXPECT(join("shm", "memory") > 0);
    join("local", "unix");
    return test_result();
}
