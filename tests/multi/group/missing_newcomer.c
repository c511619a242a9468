/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: seconds=12 ranks=3 timeout=120 trees=release,debug,address,undefined */
/*
 * Two members grow by two newcomers, of which one never comes. All others miss that one, also those that read the
 * outcome after the member whose process serves the store.
 */
#include <stdlib.h>
#include <unistd.h>

#include "multi/expect.h"
#include "time_limits.h"

enum { MEMBERS = 2, GROW_MS = 8000 };

int main(void)
{
    tutti_group *world = NULL;
    tutti_group *members = NULL;
    tutti_group *larger = NULL;
    int64_t serving = getpid(); /* rank 0's process, which makes a name for the store */
    char store[64];
    char token[TUTTI_TOKEN_BYTES] = "";
    const int64_t one = 1;
    const int64_t length = sizeof(token);
    DLTensor number = tutti_tensor_1d(&serving, &one, TUTTI_I64);
    DLTensor text = tutti_tensor_1d(token, &length, TUTTI_U8);
    EXPECT_OK(tutti_init(NULL, &world, &err));
    const int32_t rank = tutti_group_rank(world);
    EXPECT_OK(tutti_broadcast(world, &number, 0, TUTTI_CALL(.error = &err)));
    snprintf(store, sizeof(store), "unix:missing-newcomer-%lld", (long long)serving);
    if (rank < MEMBERS) {
        EXPECT_OK(tutti_init(TUTTI_CONFIG(.rank = rank, .world_size = MEMBERS, .store = store, .timeout_ms = LONG_MS),
                             &members, &err));
    }
    if (rank == 0) {
        EXPECT_OK(tutti_group_token(members, token, sizeof(token), &err));
    }
    EXPECT_OK(tutti_broadcast(world, &text, 0, TUTTI_CALL(.error = &err)));
    if (rank < MEMBERS) {
        EXPECT_ERROR(TUTTI_TIMEOUT, "missing: rank 3", tutti_group_grow(members, token, 2, GROW_MS, &larger, &err));
        EXPECT_OK(tutti_group_destroy(members, NULL));
    } else {
        EXPECT_ERROR(TUTTI_TIMEOUT, "missing: rank 3",
                     tutti_group_join(token, TUTTI_CONFIG(.timeout_ms = LONG_MS), &larger, &err));
    }
    EXPECT(err.suspect == 3 && !larger);
    EXPECT_OK(tutti_finalize(NULL));
    return failures != 0;
}
