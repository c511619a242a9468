/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which users learn that a block has been freed (api/group/blocks.h), also if its address is another block's before the
 * one that frees it has said so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "api/group/blocks.h"

struct counter {
    struct tti_block_user user; /* first */
    int calls;
    const void *memory;
    size_t bytes;
};

static void count(struct tti_block_user *user, const void *memory, size_t bytes)
{
    struct counter *c = (struct counter *)user;
    c->calls++;
    c->memory = memory;
    c->bytes = bytes;
}

static char memory[64];

static void users_of_a_freed_block(void **state)
{
    (void)state;
    struct counter a = {.user.freed = count};
    tti_block_add(memory, 40);
    tti_block_user_add(&a.user);
    tti_block_end(tti_block_begin_end(memory + 1), true); /* none that is noted */
    assert_int_equal(a.calls, 0);
    tti_block_end(tti_block_begin_end(memory), false); /* refused */
    assert_int_equal(a.calls, 0);
    tti_block_end(tti_block_begin_end(memory), true);
    assert_int_equal(a.calls, 1);
    assert_ptr_equal(a.memory, memory);
    assert_int_equal(a.bytes, 40);
    tti_block_end(tti_block_begin_end(memory), true); /* the second time */
    assert_int_equal(a.calls, 1);
    tti_block_user_remove(&a.user);
}

static void the_address_is_used_again(void **state)
{
    (void)state;
    struct counter earlier = {.user.freed = count};
    struct counter later = {.user.freed = count};
    tti_block_add(memory, 40);
    tti_block_user_add(&earlier.user);
    struct tti_block *ending = tti_block_begin_end(memory);
    tti_block_add(memory, 64); /* by another thread, after the memory was freed */
    tti_block_user_add(&later.user);
    tti_block_end(ending, true);
    assert_int_equal(earlier.calls, 1);
    assert_int_equal(earlier.bytes, 40);
    assert_int_equal(later.calls, 0);
    tti_block_end(tti_block_begin_end(memory), true);
    assert_int_equal(later.calls, 1);
    assert_int_equal(later.bytes, 64);
    tti_block_user_remove(&earlier.user);
    tti_block_user_remove(&later.user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_of_a_freed_block),
        cmocka_unit_test(the_address_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
