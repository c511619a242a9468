/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the parts of ranks lie in a joined tensor, for the even and the variable-count forms. */
#include "check/data/parts.h"

#include <stdlib.h>

#include "check/data/data.h"
#include "check/reference/expect.h"

/* Rows of the part that `from` gives to `to`; for all but all_to_all `from` is always 0. */
static int64_t rows_of(const struct tti_check_plan *plan, int n, int from, int to)
{
    const int64_t rows = plan->ndim == 0 ? 1 : plan->shape[plan->dim];
    switch (plan->spread) {
    case TTI_CHECK_EVEN:
        return rows;
    case TTI_CHECK_ZEROS:
        return (from + to) % 2 == 0 ? 0 : rows + to % 2;
    case TTI_CHECK_LAST:
        return to == n - 1 ? rows : 0;
    default:
        return rows + (3 * from + to) % 4;
    }
}

static void place(struct tti_check_parts *parts, enum tti_check_spread spread)
{
    const int64_t gap = spread == TTI_CHECK_GAPS ? 2 : spread == TTI_CHECK_REVERSED ? 1 : 0;
    int64_t row = 0;
    for (int i = 0; i < parts->n; i++) {
        const int part = spread == TTI_CHECK_REVERSED ? parts->n - 1 - i : i;
        row += gap;
        parts->at[part] = row;
        row += parts->counts[part];
    }
    parts->rows = row + gap;
    parts->displaced = gap > 0;
}

static void make(struct tti_check_parts *parts, int n, const struct tti_check_plan *plan)
{
    parts->n = n;
    parts->counts = tti_check_memory((size_t)n * sizeof(int64_t));
    parts->at = tti_check_memory((size_t)n * sizeof(int64_t));
    parts->outer = 1;
    parts->inner = 1;
    for (int d = 0; d < plan->dim; d++) {
        parts->outer *= (size_t)plan->shape[d];
    }
    for (int d = plan->dim + 1; d < plan->ndim; d++) {
        parts->inner *= (size_t)plan->shape[d];
    }
}

void tti_check_parts_make(struct tti_check_parts *parts, int n, const struct tti_check_plan *plan)
{
    make(parts, n, plan);
    for (int r = 0; r < n; r++) {
        parts->counts[r] = rows_of(plan, n, 0, r);
    }
    place(parts, plan->spread);
}

void tti_check_parts_make_pairwise(struct tti_check_parts *parts, int n, const struct tti_check_plan *plan, int rank,
                                   bool send)
{
    make(parts, n, plan);
    for (int r = 0; r < n; r++) {
        parts->counts[r] = send ? rows_of(plan, n, rank, r) : rows_of(plan, n, r, rank);
    }
    place(parts, plan->spread);
}

void tti_check_parts_free(struct tti_check_parts *parts)
{
    free(parts->counts);
    free(parts->at);
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
    for (int r = 0; r < parts->n; r++) {
        for (int64_t i = 0; i < parts->counts[r]; i++) {
            owned[parts->at[r] + i] = 1;
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
    for (int r = 0; r < parts->n; r++) {
        const size_t run = tti_check_parts_run(parts, r);
        for (size_t o = 0; o < parts->outer; o++) {
            tti_check_expect_copy(c, result, plan->dtype, tti_check_parts_first(parts, r, o), run, r, plan->pattern,
                                  o * run);
        }
    }
    tti_check_parts_gaps(c, x, parts);
}
