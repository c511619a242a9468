/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank has no memory for one moment while it shrinks: at its first allocation, at its second, and so on. In every
 * case: if one rank gets OK, all members have the group, and no rank gets OK without one.
 * tutti-test: trees=release,debug,undefined
 */
#include "api/check.h"

#include <stdbool.h>
#include <stdint.h>

#define ALLOCATIONS_MOST 1000
#define SHRINK_MS        400 /* others may wait half of it for a rank that cannot open the group */

static _Thread_local int32_t allocations_left; /* until one fails; 0: none does */

static bool allocation_fails(void)
{
    return allocations_left > 0 && --allocations_left == 0;
}

#include "allocator.h"
#include "time_limits.h"

static int32_t allocation;
static _Atomic bool done; /* it has shrunk, and no allocation has failed */

static tutti_status sum(tutti_group *g, tutti_error *error)
{
    int64_t one = 1;
    int32_t value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.timeout_ms = LONG_MS, .error = error));
    EXPECT(status != TUTTI_OK || value == tutti_group_size(g));
    return status;
}

static tutti_status shrinking(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_group *rest = NULL;
    EXPECT_OK(sum(g, &e));
    allocations_left = tutti_group_rank(g) == 1 ? allocation : 0;
    const tutti_status status = tutti_group_shrink(g, SHRINK_MS, &rest, &e);
    if (tutti_group_rank(g) == 1) {
        atomic_store(&done, status == TUTTI_OK && allocations_left > 0);
        allocations_left = 0;
    }
    EXPECT(e.status == status && (status == TUTTI_OK) == (rest != NULL));
    if (status == TUTTI_OK) { /* all other members have the group, too */
        EXPECT_OK(sum(rest, &e));
        EXPECT_OK(tutti_group_destroy(rest, &e));
    } else {
        EXPECT(e.message[0] != '\0');
    }
    return TUTTI_OK; /* destroys the old group: no rank waits for this one any more */
}

int main(void)
{
    do {
        allocation++;
        test_ranks(2, shrinking);
    } while (!atomic_load(&done) && allocation < ALLOCATIONS_MOST);
    EXPECT(allocation > 10 && allocation < ALLOCATIONS_MOST);
    return test_result();
}
