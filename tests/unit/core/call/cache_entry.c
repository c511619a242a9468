/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that a program repeats do not take each other's entries of the call cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tutti/tutti.h>

#include "core/call/cache/entry.h"

enum { PEERS = 32 };

static struct tti_cached_call entries[TTI_CACHED_CALLS];

/* Which entries are taken, a bit each. */
static uint64_t taken;

static const tutti_operation plain[] = {TUTTI_OP_BROADCAST, TUTTI_OP_ALL_GATHER, TUTTI_OP_GATHER,
                                        TUTTI_OP_SCATTER,   TUTTI_OP_ALL_TO_ALL, TUTTI_OP_BARRIER};
static const tutti_operation reducing[] = {TUTTI_OP_ALL_REDUCE, TUTTI_OP_REDUCE, TUTTI_OP_REDUCE_SCATTER};

/* As handles.c numbers them. */
static const tutti_group *group_number(unsigned number)
{
    return (const tutti_group *)(UINT64_C(1) << 32 | (uint64_t)number << 4 | TTI_KIND_GROUP);
}

static void take(const tutti_group *group, struct tti_signature signature)
{
    const ptrdiff_t index = tti_cached_call_at(entries, group, signature.what) - entries;
    assert_in_range(index, 0, TTI_CACHED_CALLS - 1);
    assert_int_equal(taken >> index & 1, 0);
    taken |= UINT64_C(1) << index;
}

static void take_collective(const tutti_group *group, tutti_operation kind, tutti_reduce_op op)
{
    take(group, tti_signature_of(kind, op, 0, 0, NULL, NULL));
}

static void take_message(const tutti_group *group, tutti_operation kind, int32_t peer)
{
    take(group, tti_signature_of_message(kind, peer, 0, NULL));
}

static void take_plain(const tutti_group *group)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        take_collective(group, plain[i], 0);
    }
}

static void every_collective_of_a_group(void **state)
{
    (void)state;
    for (unsigned number = 0; number < TTI_HANDLES; number++) {
        taken = 0;
        take_plain(group_number(number));
        for (size_t i = 0; i < sizeof(reducing) / sizeof(reducing[0]); i++) {
            for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_LOR; op++) {
                take_collective(group_number(number), reducing[i], op);
            }
        }
    }
}

static void usual_calls_of_three_groups(void **state)
{
    (void)state;
    for (unsigned first = 0; first + 3 <= TTI_HANDLES; first++) {
        taken = 0;
        for (unsigned number = first; number < first + 3; number++) {
            const tutti_group *group = group_number(number);
            take_plain(group);
            take_message(group, TUTTI_OP_SEND, 0);
            take_message(group, TUTTI_OP_RECV, 0);
            take_collective(group, TUTTI_OP_ALL_REDUCE, TUTTI_SUM);
            take_collective(group, TUTTI_OP_ALL_REDUCE, TUTTI_MIN);
            take_collective(group, TUTTI_OP_ALL_REDUCE, TUTTI_MAX);
            take_collective(group, TUTTI_OP_ALL_REDUCE, TUTTI_AVG);
            take_collective(group, TUTTI_OP_REDUCE_SCATTER, TUTTI_SUM);
            take_collective(group, TUTTI_OP_REDUCE_SCATTER, TUTTI_AVG);
        }
    }
}

static void messages_to_and_from_many_peers(void **state)
{
    (void)state;
    taken = 0;
    for (int32_t peer = 0; peer < PEERS; peer++) {
        take_message(group_number(0), TUTTI_OP_SEND, peer);
        take_message(group_number(0), TUTTI_OP_RECV, peer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_of_a_group),
        cmocka_unit_test(usual_calls_of_three_groups),
        cmocka_unit_test(messages_to_and_from_many_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
