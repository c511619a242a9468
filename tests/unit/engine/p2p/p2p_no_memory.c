/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,undefined */
/*
 * A receiver has no memory for a message that it has to keep. The message stays in the ring, and is as it was when the
 * receiver reads it again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static _Thread_local bool next_fails;
static _Thread_local int refusals;

static bool allocation_fails(void)
{
    const bool fails = next_fails;
    next_fails = false;
    refusals += fails;
    return fails;
}

#include "allocator.h"
#include "unit/engine/p2p/p2p_support.h"

#define COUNT 3000

static bool populate(void *user, int rank, size_t offset, size_t bytes, bool only_reader)
{
    (void)user;
    (void)rank;
    (void)offset;
    (void)bytes;
    return only_reader;
}

static void a_message_that_was_not_kept_stays(void **state)
{
    (void)state;
    static int32_t out[COUNT];
    static int32_t in[COUNT];
    int32_t small = 0;
    const int64_t counts[] = {COUNT, 1};
    struct cluster c;
    tutti_error e;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){1000, 20000, 0}), 0);
    for (int r = 0; r < 2; r++) {
        c.engines[r]->tuning.claims = 1;
        c.engines[r]->populate = populate;
    }
    for (int i = 0; i < COUNT; i++) {
        out[i] = -1;
    }
    tutti_op sends[] = {send_op(out, &counts[0], 1, 1), send_op(&small, &counts[1], 1, 2)};
    tutti_op recvs[] = {recv_op(in, COUNT, 0, 1), recv_op(&small, 1, 0, 2)};
    tutti_op *both[] = {&sends[0], &sends[1]};
    tutti_op *first = &recvs[0];
    tutti_op *second = &recvs[1];
    assert_int_equal(tti_engine_run_p2p(c.engines[0], both, 2, TUTTI_FOREVER, &e), TUTTI_OK);
    next_fails = true;
    assert_int_equal(tti_engine_run_p2p(c.engines[1], &second, 1, TUTTI_FOREVER, &e), TUTTI_OK);
    next_fails = false;
    assert_int_equal(refusals, 1);
    assert_int_equal(tti_engine_run_p2p(c.engines[1], &first, 1, TUTTI_FOREVER, &e), TUTTI_OK);
    assert_memory_equal(in, out, sizeof(in));
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_message_that_was_not_kept_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
