/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All works that a process can have are in use: another one is refused, and each release makes room for one.
 *
 * tutti-test: trees=release
 */
#include <stdlib.h>

#include "api/check.h"

#define WORKS 65536 /* as tutti/work.h says */

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_work *one_more = NULL;
    tutti_work **works = calloc(WORKS, sizeof(*works));
    for (int i = 0; works && i < WORKS; i++) {
        EXPECT_OK(tutti_barrier_async(g, NULL, &works[i]));
    }
    for (int i = 0; works && i < 2; i++) {
        EXPECT_ERROR(&e, TUTTI_NO_RESOURCE, "65536 works of this process run or were not released",
                     tutti_barrier_async(g, TUTTI_CALL(.error = &e), &one_more));
        EXPECT_ERROR(&e, TUTTI_NO_RESOURCE, "release them",
                     tutti_work_create(g, NULL, TUTTI_CALL(.error = &e), &one_more));
        EXPECT(!one_more);
        EXPECT_OK(tutti_work_release(works[i]));
        EXPECT_OK(tutti_barrier_async(g, NULL, &works[i]));
    }
    for (int i = 0; works && i < WORKS; i++) {
        EXPECT_OK(tutti_work_release(works[i]));
    }
    free(works);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(1, rank);
    return test_result();
}
