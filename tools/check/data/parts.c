/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the parts of ranks lie in a joined tensor, for the even and the variable-count forms. The spread of a plan
 * chooses the rows of each part and their order: equal parts, empty ones, all rows in the last one, gaps between the
 * parts, or the reverse order.
 */
#include "check/data/parts.h"

#include <stdlib.h>

#include "check/data/data.h"
#include "check/reference/expect.h"

/* Rows of the part that `from` gives to `to`; for all but all_to_all `from` is always 0. */
static int64_t rows_of(const struct tti_check_plan *plan, int count, int from, int to)
{
    const int64_t rows = plan->ndim == 0 ? 1 : plan->shape[plan->dim];
    switch (plan->spread) {
    case TTI_CHECK_EVEN:
        return rows;
    case TTI_CHECK_ZEROS:
        return (from + to) % 2 == 0 ? 0 : rows + to % 2;
    case TTI_CHECK_LAST:
        return to == count - 1 ? rows : 0;
    default: /* 3 is -1 modulo 4: neighbours send each other different numbers of rows */
        return rows + (3 * from + to) % 4;
    }
}

static void set_displacements(struct tti_check_parts *parts, enum tti_check_spread spread)
{
    const int64_t gap = spread == TTI_CHECK_GAPS ? 2 : spread == TTI_CHECK_REVERSED ? 1 : 0;
    int64_t row = 0;
    for (int i = 0; i < parts->count; i++) {
        const int part = spread == TTI_CHECK_REVERSED ? parts->count - 1 - i : i;
        row += gap;
        parts->first_row[part] = row;
        row += parts->counts[part];
    }
    parts->rows = row + gap;
    parts->displaced = gap > 0;
}

static void allocate_parts(struct tti_check_parts *parts, int count, const struct tti_check_plan *plan)
{
    parts->count = count;
    parts->counts = tti_check_memory((size_t)count * sizeof(int64_t));
    parts->first_row = tti_check_memory((size_t)count * sizeof(int64_t));
    parts->outer = 1;
    parts->inner = 1;
    for (int d = 0; d < plan->dim; d++) {
        parts->outer *= (size_t)plan->shape[d];
    }
    for (int d = plan->dim + 1; d < plan->ndim; d++) {
        parts->inner *= (size_t)plan->shape[d];
    }
}

void tti_check_parts_make(struct tti_check_parts *parts, int count, const struct tti_check_plan *plan)
{
    allocate_parts(parts, count, plan);
    for (int r = 0; r < count; r++) {
        parts->counts[r] = rows_of(plan, count, 0, r);
    }
    set_displacements(parts, plan->spread);
}

void tti_check_parts_make_pairwise(struct tti_check_parts *parts, int count, const struct tti_check_plan *plan,
                                   int rank, bool send)
{
    allocate_parts(parts, count, plan);
    for (int r = 0; r < count; r++) {
        parts->counts[r] = send ? rows_of(plan, count, rank, r) : rows_of(plan, count, r, rank);
    }
    set_displacements(parts, plan->spread);
}

void tti_check_parts_free(struct tti_check_parts *parts)
{
    free(parts->counts);
    free(parts->first_row);
}

void tti_check_parts_shape(const struct tti_check_plan *plan, int64_t rows, int64_t shape[3])
{
    for (int d = 0; d < 3; d++) {
        shape[d] = d < plan->ndim ? plan->shape[d] : 0;
    }
    shape[plan->dim] = rows;
}

void tti_check_parts_gaps(struct tti_check *c, struct tti_check_tensor *x, const struct tti_check_parts *parts)
{
    if (!parts->displaced) {
        return;
    }
    unsigned char *owned = calloc((size_t)parts->rows + 1, 1);
    if (!owned) {
        tti_check_fail(c, "no memory to check the gaps");
        return;
    }
    for (int r = 0; r < parts->count; r++) {
        for (int64_t i = 0; i < parts->counts[r]; i++) {
            owned[parts->first_row[r] + i] = 1;
        }
    }
    for (size_t o = 0; o < parts->outer; o++) {
        for (size_t row = 0; row < (size_t)parts->rows; row++) {
            if (!owned[row]) {
                tti_check_tensor_untouched(c, x, (o * (size_t)parts->rows + row) * parts->inner, parts->inner);
            }
        }
    }
    free(owned);
}

void tti_check_parts_gathered(struct tti_check *c, struct tti_check_tensor *x, const struct tti_check_parts *parts,
                              const struct tti_check_plan *plan)
{
    const unsigned char *result = tti_check_tensor_result(c, x);
    for (int r = 0; r < parts->count; r++) {
        const size_t run = tti_check_parts_elements(parts, r);
        for (size_t o = 0; o < parts->outer; o++) {
            tti_check_expect_copy(c, result, plan->dtype, tti_check_parts_first(parts, r, o), run, r, plan->pattern,
                                  o * run);
        }
    }
    tti_check_parts_gaps(c, x, parts);
}
