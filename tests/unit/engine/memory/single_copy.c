/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=120 */
/*
 * Private tensors that the kernel reads for a collective. If an owner names memory that cannot be read, both sides
 * return the reason, and no rank waits. And which memory is offered.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/memory/single_copy.h"
#include "unit/engine/engine_calls.h"

#define COUNT 65536 /* elements: whole pages */
#define BYTES (COUNT * sizeof(int32_t))
#define PAGE  ((size_t)4096)

/* The tensors of rank 1, a page of whose first part cannot be read, and of rank 0. */
static int32_t *broken;
static int32_t *whole;
static tutti_operation kind;
static tutti_error errors[2];

static const struct case_of {
    tutti_operation kind;
    int root;
    size_t count;
} cases[] = {
    {TUTTI_OP_BROADCAST, 1, COUNT},
    {TUTTI_OP_GATHER, 0, COUNT},
    {TUTTI_OP_SCATTER, 1, COUNT},
    {TUTTI_OP_ALL_TO_ALL, 0, 2 * COUNT},
};

/* Rank 1 exposes only its first part. */
static int call(struct cluster *c, int rank)
{
    int32_t *in = rank == 1 ? broken : whole;
    const tutti_parts parts = {.outer = 1, .pitch = 2 * BYTES, .unit = sizeof(int32_t), .each = COUNT};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].kind == kind) {
            int32_t *out = kind == TUTTI_OP_BROADCAST ? in : whole + (size_t)(rank + 1) * 2 * COUNT;
            tutti_op op = op_of(kind, in, out, cases[i].count, cases[i].root);
            op.send_parts = parts;
            op.recv_parts = parts;
            return tti_engine_run(c->engines[rank], &op, &errors[rank]) == TUTTI_OK;
        }
    }
    return 1;
}

static void *pages_of(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void both_sides_report_the_cause(void **state)
{
    (void)state;
    struct tti_tuning_overrides wishes = no_overrides;
    wishes.packets = wishes.zero_copy = wishes.single_copy = 0;
    struct tti_tuning tuning = built_in_tuning(2, &wishes);
    broken = pages_of(2 * BYTES);
    whole = pages_of(6 * BYTES);
    assert_int_equal(mprotect((char *)broken + BYTES / 2 / PAGE * PAGE, PAGE, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cluster c;
        assert_int_equal(cluster_open_tuned(&c, 2, 1, tuning, (struct waiting){1000, 20000, 0}), 0);
        kind = cases[i].kind;
        assert_int_equal(cluster_run(&c, call), 0);
        assert_int_equal(errors[0].status, TUTTI_PEER_CORRUPT);
        assert_int_equal(errors[0].suspect, 1);
        assert_int_equal(errors[0].vendor_code, EFAULT);
        assert_non_null(strstr(errors[0].message, "could not be read"));
        assert_int_equal(errors[1].status, TUTTI_PEER_CORRUPT);
        assert_int_equal(errors[1].suspect, 1);
        cluster_close(&c);
    }
    munmap(broken, 2 * BYTES);
    munmap(whole, 6 * BYTES);
}

/* Only what the kernel reads for another process is offered: not memory that is unreadable at an end, and nothing once
 * the process does not want to be dumped. */
static void what_can_be_read(void **state)
{
    (void)state;
    char *memory = pages_of(3 * PAGE);
    assert_int_equal(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE), 0);
    assert_true(tti_single_copy_readable(memory, 2 * PAGE));
    assert_true(tti_single_copy_readable(memory, 0));
    assert_false(tti_single_copy_readable(memory, 2 * PAGE + 1));
    assert_false(tti_single_copy_readable(memory + 2 * PAGE, 1));
    assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
    assert_false(tti_single_copy_readable(memory, PAGE));
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
    assert_true(tti_single_copy_readable(memory, PAGE));
    munmap(memory, 3 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_sides_report_the_cause),
                                       cmocka_unit_test(what_can_be_read)};
    if (!kernel_copies()) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
