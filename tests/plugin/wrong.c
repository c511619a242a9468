/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend shm with one fault, which TUTTI_TEST_WRONG names: the conformance suite must find it.
 *
 *   avg       a large average has a wrong last element
 *   in_place  so has a large all_reduce in place
 *   hang      collectives have no deadline
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/backend.h>

enum { LARGE_AVG = 256 << 10, LARGE_IN_PLACE = 6 << 20 };

static const tutti_backend *right;
static tutti_backend wrong;
static tutti_backend_ops ops;

static bool has_fault(const char *name)
{
    const char *fault = getenv("TUTTI_TEST_WRONG");
    return fault && strcmp(fault, name) == 0;
}

static tutti_status spoil(tutti_status status, const tutti_op *op)
{
    const size_t bytes = op->count * tutti_dtype_size(op->dtype);
    const bool avg = has_fault("avg") && op->redop == TUTTI_AVG && bytes > LARGE_AVG;
    const bool in_place =
        has_fault("in_place") && op->kind == TUTTI_OP_ALL_REDUCE && op->src == op->dst && bytes > LARGE_IN_PLACE;
    if (status == TUTTI_OK && op->dst && (avg || in_place)) {
        ((unsigned char *)op->dst)[bytes - tutti_dtype_size(op->dtype)] ^= 1;
    }
    return status;
}

static tutti_status run(void *state, tutti_op *op, tutti_error *error)
{
    op->timeout_ms = has_fault("hang") ? -1 : op->timeout_ms;
    return spoil(right->ops->run(state, op, error), op);
}

static int32_t start(void *state, tutti_op *op)
{
    op->timeout_ms = has_fault("hang") ? -1 : op->timeout_ms;
    return right->ops->start(state, op);
}

static tutti_status finish(void *state, tutti_op *op, tutti_error *error)
{
    return spoil(right->ops->finish(state, op, error), op);
}

TUTTI_API const tutti_backend *tutti_backend_entry(void);

const tutti_backend *tutti_backend_entry(void)
{
    right = tutti_backend_find("shm");
    if (!right) {
        return NULL;
    }
    ops = *right->ops;
    ops.run = run;
    ops.start = start;
    ops.finish = finish;
    wrong = *right;
    wrong.name = "wrong";
    wrong.priority = -1;
    wrong.ops = &ops;
    return &wrong;
}
