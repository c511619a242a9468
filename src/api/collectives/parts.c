/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A joined tensor is cut along dimension `dim` into one part for each rank. As tutti_parts has it, the tensor is
 * `outer` rows of `pitch` bytes, and a part is a run of units of `unit` bytes in each row. `outer` is the product of
 * the dimensions before `dim`, `unit` the bytes of those behind it, `pitch` the unit times the length of `dim`.
 * Products and sums are checked for overflow, since the caller's shapes are arbitrary. Lists of displacements are
 * accepted in one pass if they ascend; only lists out of order are compared in pairs, O(n^2) for n ranks.
 */
#include "api/collectives/parts.h"

#include <inttypes.h>

/* The fields that do not depend on the distribution of rows. */
static tutti_status rows_of(const struct tti_checker *k, const struct tti_view *joined, int32_t dim, tutti_parts *parts)
{
    size_t outer = 1;
    size_t unit = joined->element;
    size_t pitch;
    bool overflow = false;
    for (int32_t d = 0; d < dim; d++) {
        overflow |= __builtin_mul_overflow(outer, (size_t)joined->shape[d], &outer);
    }
    for (int32_t d = dim + 1; d < joined->ndim; d++) {
        overflow |= __builtin_mul_overflow(unit, (size_t)joined->shape[d], &unit);
    }
    overflow |= __builtin_mul_overflow(unit, (size_t)joined->shape[dim], &pitch);
    if (overflow) { /* only without elements: a dimension of 0 hides the product of the others */
        return tti_reject(k,
                          "%s is too large: the product of its dimensions other than those of length 0 does not fit "
                          "into 64 bits",
                          joined->name);
    }
    *parts = (tutti_parts){.outer = outer, .pitch = pitch, .unit = unit};
    return TUTTI_OK;
}

tutti_status tti_check_same_rows(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b,
                                 int32_t dim)
{
    tutti_status status = tti_check_same_dtype(k, a, b);
    if (status != TUTTI_OK) {
        return status;
    }
    if (a->ndim != b->ndim) {
        return tti_reject(k, "%s has %d dimensions but %s has %d; they may differ only in the length of dimension %d",
                          b->name, (int)b->ndim, a->name, (int)a->ndim, (int)dim);
    }
    for (int32_t d = 0; d < a->ndim; d++) {
        if (d != dim && a->shape[d] != b->shape[d]) {
            return tti_reject(k,
                              "dimension %d of %s has length %" PRId64 " but that of %s has %" PRId64
                              "; they may differ only in dimension %d",
                              (int)d, b->name, b->shape[d], a->name, a->shape[d], (int)dim);
        }
    }
    return TUTTI_OK;
}

tutti_status tti_check_all_parts(const struct tti_checker *k, const struct tti_view *part)
{
    int64_t all;
    if (__builtin_mul_overflow((int64_t)part->bytes, (int64_t)k->c->group_size, &all)) {
        return tti_reject(k, "%s is too large: its %zu bytes times %d ranks do not fit into 63 bits", part->name,
                          part->bytes, (int)k->c->group_size);
    }
    return TUTTI_OK;
}

tutti_status tti_parts_cut(const struct tti_checker *k, const struct tti_view *joined, int32_t dim, tutti_parts *parts)
{
    int64_t ranks = k->c->group_size;
    int64_t rows = joined->shape[dim];
    if (rows % ranks != 0) {
        return tti_reject(k,
                          "%s has length %" PRId64 " along dimension %d, which %d ranks cannot share equally; cut "
                          "or pad it to a multiple, or use the variable-count form",
                          joined->name, rows, (int)dim, (int)ranks);
    }
    tutti_status status = rows_of(k, joined, dim, parts);
    parts->each = rows / ranks;
    return status;
}

tutti_status tti_parts_equal(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                             int32_t dim, tutti_parts *parts)
{
    tutti_status status;
    if ((status = tti_check_all_parts(k, part)) != TUTTI_OK ||
        (status = tti_check_same_rows(k, part, joined, dim)) != TUTTI_OK ||
        (status = tti_parts_cut(k, joined, dim, parts)) != TUTTI_OK) {
        return status;
    }
    if (parts->each != part->shape[dim]) {
        return tti_reject(k,
                          "%s has length %" PRId64 " along dimension %d, but %d parts of %" PRId64
                          " as in %s need %d times as much",
                          joined->name, joined->shape[dim], (int)dim, (int)k->c->group_size, part->shape[dim],
                          part->name, (int)k->c->group_size);
    }
    return TUTTI_OK;
}

static tutti_status check_places(const struct tti_checker *k, const struct tti_view *joined, int32_t dim,
                                 const struct tti_counts *list)
{
    int64_t rows = joined->shape[dim];
    bool sorted = true;
    int64_t end = 0;
    for (int32_t r = 0; r < k->c->group_size; r++) {
        int64_t at = list->displacements[r];
        if (at < 0 || at > rows || list->counts[r] > rows - at) {
            return tti_reject(k,
                              "%s[%d] is %" PRId64 " with %" PRId64 " rows, but %s has only rows 0 to %" PRId64
                              " along dimension %d",
                              list->displacements_name, (int)r, at, list->counts[r], joined->name, rows - 1, (int)dim);
        }
        if (list->counts[r] > 0) {
            sorted = sorted && at >= end;
            end = at + list->counts[r];
        }
    }
    if (sorted || !list->written) {
        return TUTTI_OK;
    }
    for (int32_t a = 0; a < k->c->group_size; a++) {
        for (int32_t b = 0; b < a; b++) {
            int64_t from_a = list->displacements[a];
            int64_t from_b = list->displacements[b];
            if (list->counts[a] > 0 && list->counts[b] > 0 && from_a < from_b + list->counts[b] &&
                from_b < from_a + list->counts[a]) {
                return tti_reject(k,
                                  "the parts of rank %d (%" PRId64 " rows at %" PRId64 ") and rank %d (%" PRId64
                                  " rows at %" PRId64 ") overlap in %s; check %s and %s",
                                  (int)b, list->counts[b], from_b, (int)a, list->counts[a], from_a, joined->name,
                                  list->counts_name, list->displacements_name);
            }
        }
    }
    return TUTTI_OK;
}

tutti_status tti_parts_sum(const struct tti_checker *k, const struct tti_counts *list, int64_t *sum)
{
    if (!list->counts) {
        return tti_reject(k, "%s is NULL; it must have one entry for each of the %d ranks", list->counts_name,
                          (int)k->c->group_size);
    }
    int64_t rows = 0;
    for (int32_t r = 0; r < k->c->group_size; r++) {
        if (list->counts[r] < 0) {
            return tti_reject(k, "%s[%d] is %" PRId64 "; counts are 0 or more", list->counts_name, (int)r,
                              list->counts[r]);
        }
        if (__builtin_add_overflow(rows, list->counts[r], &rows)) {
            return tti_reject(k, "the sum of %s up to rank %d does not fit into 63 bits", list->counts_name, (int)r);
        }
    }
    *sum = rows;
    return TUTTI_OK;
}

tutti_status tti_parts_variable(const struct tti_checker *k, const struct tti_view *joined, int32_t dim,
                                const struct tti_counts *list, tutti_parts *parts)
{
    int64_t sum = 0;
    tutti_status status = tti_parts_sum(k, list, &sum);
    if (status != TUTTI_OK) {
        return status;
    }
    if (list->displacements) {
        status = check_places(k, joined, dim, list);
    } else if (sum != joined->shape[dim]) {
        return tti_reject(k,
                          "the %s sum to %" PRId64 ", but %s has length %" PRId64 " along dimension %d; without "
                          "displacements they must be equal",
                          list->counts_name, sum, joined->name, joined->shape[dim], (int)dim);
    }
    if (status == TUTTI_OK && (status = rows_of(k, joined, dim, parts)) == TUTTI_OK) {
        parts->counts = list->counts;
        parts->displacements = list->displacements;
    }
    return status;
}

tutti_status tti_check_own_rows(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                                int32_t dim, const struct tti_counts *list)
{
    tutti_status status = tti_check_same_rows(k, part, joined, dim);
    if (status == TUTTI_OK && part->shape[dim] != list->counts[k->c->rank]) {
        return tti_reject(k, "%s has length %" PRId64 " along dimension %d, but %s[%d], the own part, is %" PRId64,
                          part->name, part->shape[dim], (int)dim, list->counts_name, (int)k->c->rank,
                          list->counts[k->c->rank]);
    }
    return status;
}

static int64_t own_row(const struct tti_checker *k, const tutti_parts *parts)
{
    if (parts->displacements) {
        return parts->displacements[k->c->rank];
    }
    int64_t row = parts->each * k->c->rank;
    for (int32_t r = 0; parts->counts && r < k->c->rank; r++) {
        row += parts->counts[r];
    }
    return row;
}

static bool same_strides(const struct tti_view *part, const struct tti_view *joined)
{
    for (int32_t d = 0; d < part->ndim; d++) {
        if (part->shape[d] > 1 && tti_view_stride(part, d) != tti_view_stride(joined, d)) {
            return false;
        }
    }
    return true;
}

tutti_status tti_check_own_part(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                                const tutti_parts *parts, int32_t dim)
{
    if (!tti_views_overlap(part, joined)) {
        return TUTTI_OK;
    }
    bool one_piece = parts->outer <= 1 || part->shape[dim] == joined->shape[dim];
    if (!one_piece) {
        return tti_reject(
            k,
            "%s and %s overlap, and in place needs dim 0 or nothing but lengths of 1 before dim (here %d): "
            "otherwise the own part is not contiguous",
            part->name, joined->name, (int)dim);
    }
    if (tti_view_self_overlaps(joined)) {
        return tti_reject(
            k,
            "%s and %s overlap, and in place needs a %s whose parts have memory of their own: its strides "
            "bring different indices to the same element",
            part->name, joined->name, joined->name);
    }
    /* Inside the span of the joined tensor, in either direction. */
    ptrdiff_t offset = (ptrdiff_t)(own_row(k, parts) * tti_view_stride(joined, dim)) * (ptrdiff_t)joined->element;
    if (part->data == joined->data + offset && same_strides(part, joined)) {
        return TUTTI_OK;
    }
    return tti_reject(k,
                      "%s and %s overlap; in place means that %s is exactly the own part of %s, %td bytes behind its "
                      "start (here %td) and with its strides",
                      part->name, joined->name, part->name, joined->name, offset, part->data - joined->data);
}
