/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/*
 * What a rank has read of another rank's tensor counts only if the group has not failed meanwhile: the owner may have
 * returned, and have changed the tensor. With threads the owner waits for the end of the chunk instead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/failure/fault.h"
#include "engine/memory/intent.h"
#include "unit/engine/engine_support.h"

static void read_chunk(bool direct, bool fails, tutti_status expected)
{
    struct cluster c;
    assert_int_equal(cluster_open(&c, 2, 1, 16384, (struct waiting){500, 20000, 0}), 0);
    struct tti_lane *lane = &c.engines[0]->lanes[0];
    tutti_error error;
    const tutti_op op = op_of(TUTTI_OP_ALL_GATHER, NULL, NULL, 0, 0);
    c.engines[0]->direct = direct;
    lane->op = &op;
    lane->error = &error;
    assert_int_equal(tti_intent_begin(lane), TUTTI_OK);
    if (fails) {
        tti_fault_revoke(c.engines[1], TUTTI_OP_REVOKE);
    }
    assert_int_equal(tti_intent_end(lane), expected);
    assert_int_equal(tti_intent_begin(lane), fails ? TUTTI_REVOKED : TUTTI_OK);
    cluster_close(&c);
}

static void what_a_process_has_read(void **state)
{
    (void)state;
    read_chunk(false, false, TUTTI_OK);
    read_chunk(false, true, TUTTI_REVOKED);
}

static void what_a_thread_has_read(void **state)
{
    (void)state;
    read_chunk(true, true, TUTTI_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_process_has_read),
        cmocka_unit_test(what_a_thread_has_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
