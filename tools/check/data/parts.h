/* SPDX-License-Identifier: BSD-3-Clause */
/* Where parts lie in a joined tensor. */
#ifndef TOOLS_CHECK_DATA_PARTS_H
#define TOOLS_CHECK_DATA_PARTS_H

#include "check/check.h"
#include "check/data/tensors.h"
#include "check/plan.h"

struct tti_check_parts {
    int count;
    int64_t *counts;    /* rows of each part */
    int64_t *first_row; /* of each part */
    int64_t rows;       /* of the joined tensor */
    size_t outer;       /* product of the dimensions before dim */
    size_t inner;       /* and behind it */
    bool displaced;     /* the parts do not simply follow one another */
};

/* The joined tensor of a plan: counts and places as the spread says. */
void tti_check_parts_make(struct tti_check_parts *parts, int count, const struct tti_check_plan *plan);
/* all_to_all_v: how rank `rank` cuts its input (send) or joins its output. */
void tti_check_parts_make_pairwise(struct tti_check_parts *parts, int count, const struct tti_check_plan *plan,
                                   int rank, bool send);
void tti_check_parts_free(struct tti_check_parts *parts);
/* The plan's shape with `rows` rows along its dimension. */
void tti_check_parts_shape(const struct tti_check_plan *plan, int64_t rows, int64_t shape[3]);

static inline size_t tti_check_parts_first(const struct tti_check_parts *parts, int part, size_t outer)
{
    return (outer * (size_t)parts->rows + (size_t)parts->first_row[part]) * parts->inner;
}

/* Elements of a part that lie one behind the other. */
static inline size_t tti_check_parts_elements(const struct tti_check_parts *parts, int part)
{
    return (size_t)parts->counts[part] * parts->inner;
}

/* The joined result has every rank's part where it belongs, and nothing else was written. */
void tti_check_parts_gathered(struct tti_check *c, struct tti_check_tensor *x, const struct tti_check_parts *parts,
                              const struct tti_check_plan *plan);

/* The joined result's rows that are in no part have not been written. */
void tti_check_parts_gaps(struct tti_check *c, struct tti_check_tensor *x, const struct tti_check_parts *parts);

#endif
