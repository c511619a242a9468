/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: ranks=2,3 */
/*
 * A process that calls tutti_group_split when the others have given up: it fails with them, and the next split works.
 * Entries and decision lie in shared memory (shm), or in the store (fault).
 */
#include "late_split.h"
#include "multi/expect.h"

static void run(const char *backend)
{
    tutti_group *world = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = backend, .timeout_ms = LONG_MS), &world, &err));
    if (world) {
        failures += late_splits(world);
        EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.error = &err)));
        EXPECT_OK(tutti_group_destroy(world, &err));
    }
}

int main(void)
{
    run("shm");
    run("fault");
    return failures > 0;
}
