/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No memory on one rank to convert an all_reduce to bf16 or fp8: NO_MEMORY there, a clear error on the other ranks, and
 * no value written. With memory again the group works.
 *
 * tutti-test: trees=release,debug
 */
#include <stdbool.h>
#include <string.h>

#include "api/check.h"

#define RANKS 3
#define COUNT 5000 /* more than the stack takes */

static _Thread_local bool fails;

static bool allocation_fails(void)
{
    return fails;
}

#include "allocator.h"

static float data[RANKS][COUNT];

static void on_wire(tutti_group *g, tutti_wire wire)
{
    const int32_t rank = tutti_group_rank(g);
    const int64_t count = COUNT;
    float *const x = data[rank];
    DLTensor t = tutti_tensor_1d(x, &count, TUTTI_F32);
    tutti_error e;
    for (int i = 0; i < COUNT; i++) {
        x[i] = 1;
    }
    fails = rank == 1;
    const tutti_status status = tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.wire = wire, .error = &e));
    fails = false;
    EXPECT(status == (rank == 1 ? TUTTI_NO_MEMORY : TUTTI_MISMATCH));
    EXPECT(strstr(e.message, rank == 1 ? "no memory" : "rank 1") != NULL);
    EXPECT(x[0] == 1 && x[COUNT - 1] == 1);
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.wire = wire, .error = &e)));
    EXPECT(x[0] == RANKS && x[COUNT - 1] == RANKS);
}

static tutti_status bf16_main(tutti_group *g, void *user)
{
    (void)user;
    on_wire(g, TUTTI_WIRE_BF16);
    return TUTTI_OK;
}

static tutti_status fp8_main(tutti_group *g, void *user)
{
    (void)user;
    on_wire(g, TUTTI_WIRE_FP8);
    return TUTTI_OK;
}

/* A group for each: the memory stays with the lane. */
int main(void)
{
    test_ranks(RANKS, bf16_main);
    test_ranks(RANKS, fp8_main);
    return test_result();
}
