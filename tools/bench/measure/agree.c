/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/measure/agree.h"

bool tti_bench_agree(struct tti_bench *b, int64_t *values, int64_t count, tutti_reduce_op op)
{
    DLTensor t = tutti_tensor_1d(values, &count, TUTTI_I64);
    return tutti_all_reduce(b->control, &t, &t, op, TUTTI_CALL(.error = &b->error)) == TUTTI_OK;
}
