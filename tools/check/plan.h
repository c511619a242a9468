/* SPDX-License-Identifier: BSD-3-Clause */
/* What to run: a collective has traits, a plan says with which tensors and options it is called. */
#ifndef TOOLS_CHECK_PLAN_H
#define TOOLS_CHECK_PLAN_H

#include "check/check.h"

enum tti_check_pattern {
    TTI_CHECK_RAW,     /* any bits                                                            */
    TTI_CHECK_PLAIN,   /* floats of moderate size that need rounding; any integers            */
    TTI_CHECK_FACTORS, /* floats near 1, odd integers: products keep information              */
    TTI_CHECK_LOGICAL, /* zeros and others, so that both outcomes of AND and OR occur          */
    TTI_CHECK_SMALL,   /* integers whose 64-bit sum is exact                                  */
    TTI_CHECK_SPECIAL, /* NaN, infinities, zeros of both signs, subnormals, extremes          */
    TTI_CHECK_LARGE    /* close to the largest value, all of one sign                         */
};

enum tti_check_layout {
    TTI_CHECK_COMPACT,
    TTI_CHECK_UNALIGNED,  /* aligned to its element, not to a cache line */
    TTI_CHECK_OFFSET,     /* starts at a byte_offset                     */
    TTI_CHECK_STRIDED,    /* gaps between elements and rows                                        */
    TTI_CHECK_TRANSPOSED, /* the first dimension runs fastest                                      */
    TTI_CHECK_BACKWARDS,  /* every dimension runs backwards, without gaps                          */
    TTI_CHECK_FLIPPED,    /* the last dimension runs backwards; gaps, and it starts at a byte_offset */
    /* Inputs only, since indices share elements: filling such a tensor leaves what came last. */
    TTI_CHECK_EXPANDED, /* the first dimension has stride 0, the others run backwards             */
    TTI_CHECK_SINGLE,   /* one element for all indices                                            */
    TTI_CHECK_WINDOWS   /* every stride is 1: row i + 1 begins at the second element of row i     */
};

enum tti_check_spread {
    TTI_CHECK_EVEN,
    TTI_CHECK_UNEVEN,  /* different lengths, one behind the other  */
    TTI_CHECK_ZEROS,   /* some ranks have nothing                  */
    TTI_CHECK_LAST,    /* only the last rank has anything          */
    TTI_CHECK_GAPS,    /* rows between the parts belong to no rank */
    TTI_CHECK_REVERSED /* the last rank's part comes first         */
};

/* What to run. `shape` is that of the whole tensor, or of one part where parts are joined along `dim`. */
struct tti_check_plan {
    tutti_dtype dtype;
    tutti_reduce_op op;
    int ndim;
    int64_t shape[3];
    int dim;
    int root;
    bool in_place;
    enum tti_check_layout layout;
    enum tti_check_pattern pattern;
    enum tti_check_spread spread;
    int64_t timeout_ms; /* this rank's; 0 = the group's */
    tutti_wire wire;    /* all_reduce */
};

/* A plan for `count` elements of a 1-d tensor (or part), out of place, data as the op wants them. */
struct tti_check_plan tti_check_plan_1d(tutti_dtype dtype, tutti_reduce_op op, int64_t count);
int64_t tti_check_plan_bytes(const struct tti_check_plan *p);
/* Data with which a wrong result of the op on the dtype shows. */
enum tti_check_pattern tti_check_pattern_for(tutti_dtype dtype, tutti_reduce_op op);
/* A valid plan of at most max_bytes, by chance: the same on all ranks for the same `draw`. */
struct tti_check_plan tti_check_plan_random(const struct tti_check *c, unsigned traits, uint64_t draw,
                                            size_t max_bytes);
/* A rank's factor of PREMUL_SUM; and the factor this rank hands to a call that runs the plan. */
double tti_check_scale(int rank, tutti_dtype dtype);
static inline double tti_check_factor(const struct tti_check *c, const struct tti_check_plan *plan)
{
    return plan->op == TUTTI_PREMUL_SUM ? tti_check_scale(c->rank, plan->dtype) : 0;
}

#endif
