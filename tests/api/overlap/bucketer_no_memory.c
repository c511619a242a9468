/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bucket for gradients of 2^60 bytes: NO_MEMORY, whose message names the bucket and its bytes; the group still works.
 * The allocator of thread sanitizer ends the program instead.
 * tutti-test: trees=release,debug,address,undefined
 */
#include "api/check.h"

#define RANKS 2

/* By default, the allocator of address sanitizer ends the program, too. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static int32_t somewhere;

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    int64_t huge = INT64_C(1) << 58;
    int64_t one = 1;
    /* 2^60 bytes behind a gap: never touched, since create reads addresses only */
    DLTensor t[2] = {tutti_tensor_1d(&somewhere, &one, TUTTI_I32), tutti_tensor_1d(&somewhere, &huge, TUTTI_I32)};
    t[1].byte_offset = 4096;
    const DLTensor *list[2] = {&t[0], &t[1]};
    tutti_bucketer *b = NULL;
    EXPECT_ERROR(&e, TUTTI_NO_MEMORY, "1152921504606846980 bytes, which gradients 0 to 1 need",
                 tutti_bucketer_create(g, list, 2, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = INT64_MAX), &b, &e));
    EXPECT(!b);
    EXPECT_USABLE(g);
    /* one behind the other, an empty one between, they are reduced where they are */
    int64_t none = 0;
    t[1].byte_offset = sizeof(somewhere);
    DLTensor empty = tutti_tensor_1d(NULL, &none, TUTTI_I32);
    const DLTensor *together[3] = {&t[0], &empty, &t[1]};
    EXPECT_OK(tutti_bucketer_create(g, together, 3, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = INT64_MAX), &b, &e));
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
    t[1].byte_offset = 4096;
    /* each in a bucket of its own needs no memory */
    EXPECT_OK(tutti_bucketer_create(g, list, 2, TUTTI_BUCKETER_OPTIONS(.bucket_bytes = 1), &b, &e));
    EXPECT_OK(tutti_bucketer_destroy(b, &e));
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(RANKS, rank);
    return test_result();
}
