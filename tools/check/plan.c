/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: the simplest one for a number of elements, and valid ones by chance. */
#include "check/plan.h"

#include "check/collectives.h"
#include "check/data/data.h"
#include "check/reference/float_format.h"

enum tti_check_pattern tti_check_pattern_for(tutti_dtype dtype, tutti_reduce_op op)
{
    const bool is_float = tti_check_format_of(dtype) != NULL;
    if (dtype == TUTTI_BOOL || op == TUTTI_LAND || op == TUTTI_LOR) {
        return TTI_CHECK_LOGICAL;
    }
    if (op == TUTTI_PRODUCT) {
        return TTI_CHECK_FACTORS;
    }
    return op == TUTTI_AVG && !is_float ? TTI_CHECK_SMALL : TTI_CHECK_PLAIN;
}

struct tti_check_plan tti_check_plan_1d(tutti_dtype dtype, tutti_reduce_op op, int64_t count)
{
    struct tti_check_plan p = {.dtype = dtype, .op = op, .ndim = 1, .shape = {count}};
    p.pattern = op == 0 ? TTI_CHECK_RAW : tti_check_pattern_for(dtype, op);
    return p;
}

int64_t tti_check_plan_bytes(const struct tti_check_plan *p)
{
    int64_t bytes = (int64_t)tutti_dtype_size(p->dtype);
    for (int d = 0; d < p->ndim; d++) {
        bytes *= p->shape[d];
    }
    return bytes;
}

double tti_check_scale(int rank, tutti_dtype dtype)
{
    /* exact in every format, so that only the products round */
    static const double factors[6] = {0.5, 3.0, -1.25, 2.0, 0.75, -1.5};
    static const double integers[6] = {2.0, 3.0, 1.0, 5.0, 7.0, 4.0};
    if (tti_check_format_of(dtype)) {
        return factors[rank % 6];
    }
    const bool negative = dtype >= TUTTI_I8 && dtype <= TUTTI_I64 && rank % 2 == 1;
    return negative ? -integers[rank % 6] : integers[rank % 6];
}

struct tti_check_plan tti_check_plan_random(const struct tti_check *c, unsigned traits, uint64_t draw, size_t max_bytes)
{
    const tutti_dtype dtype = 1 + (tutti_dtype)(tti_check_mix(draw, 1) % (TUTTI_DTYPE_COUNT - 1));
    tutti_reduce_op op = 0;
    for (uint64_t i = 2; traits & TTI_CHECK_REDUCES; i++) {
        op = 1 + (tutti_reduce_op)(tti_check_mix(draw, i) % (TUTTI_REDUCE_OP_COUNT - 1));
        if (tutti_reduce_op_valid(op, dtype)) {
            break;
        }
    }
    /* as many small ones as large ones: a random number of bits */
    uint64_t most = max_bytes / tutti_dtype_size(dtype);
    if (traits & TTI_CHECK_JOINS) {
        most /= (uint64_t)c->size;
    }
    int bits = 0;
    while (most >> bits > 1) {
        bits++;
    }
    const uint64_t mask = ((uint64_t)1 << (tti_check_mix(draw, 100) % (uint64_t)(bits + 1))) - 1;
    struct tti_check_plan p = tti_check_plan_1d(dtype, op, (int64_t)(tti_check_mix(draw, 101) & mask));
    if (traits & TTI_CHECK_ROOTED) {
        p.root = (int)(tti_check_mix(draw, 102) % (uint64_t)c->size);
    }
    p.in_place = (traits & TTI_CHECK_IN_PLACE) && tti_check_mix(draw, 103) % 3 == 0;
    if (traits & TTI_CHECK_SPREADS) {
        const uint64_t spreads = traits & TTI_CHECK_REDUCES ? TTI_CHECK_LAST + 1 : TTI_CHECK_REVERSED + 1;
        p.spread = (enum tti_check_spread)(tti_check_mix(draw, 104) % spreads);
    }
    if (tti_check_mix(draw, 105) % 4 == 0) {
        p.layout = TTI_CHECK_UNALIGNED;
    }
    return p;
}
