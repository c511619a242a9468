/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scratch for a strided tensor of more bytes than a machine has: NO_MEMORY, whose message names the tensor and its
 * bytes. The group still works. The allocator of thread sanitizer ends the program instead.
 *
 * tutti-test: trees=release,debug,address,undefined
 */
#include "api/check.h"

#define RANKS 2

/* Address sanitizer would abort, too, without this option. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* 2^60 bytes with gaps. They are never touched: packing begins when there is memory. */
static int64_t huge_shape[2] = {INT64_C(1) << 57, 2};
static int64_t huge_strides[2] = {3, 1};
static int32_t somewhere;

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    int64_t none = 0;
    int32_t me = tutti_group_rank(g);
    DLTensor huge = tutti_tensor_nd(&somewhere, 2, huge_shape, TUTTI_I32);
    huge.strides = huge_strides;
    DLTensor nothing = tutti_tensor_1d(NULL, &none, TUTTI_I32); /* anything else would lie inside the huge one */
    const tutti_call *options = TUTTI_CALL(.error = &e);
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "input (1152921504606846976 bytes)",
                 tutti_all_reduce(g, &huge, &huge, TUTTI_SUM, options));
    EXPECT_USABLE(g);
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "tensor (1152921504606846976 bytes)", tutti_broadcast(g, &huge, 0, options));
    EXPECT_USABLE(g);
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "send: no memory", tutti_send(g, &huge, 1 - me, 0, options));
    EXPECT_USABLE(g);
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "recv: no memory", tutti_recv(g, &huge, 1 - me, 0, options, NULL));
    EXPECT_USABLE(g);
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "recv_tensor",
                 tutti_sendrecv(g, &nothing, 1 - me, 0, &huge, 1 - me, 0, options, NULL));
    EXPECT_USABLE(g);
    /* refused members leave no trace in a batch */
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "send: no memory", tutti_send(g, &huge, 1 - me, 0, options));
    EXPECT_OK(tutti_batch_end(g, NULL));
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
