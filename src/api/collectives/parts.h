/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joined tensors: the output of a gather, the input of a scatter, both sides of an all_to_all. These functions check
 * that a part and its joined tensor fit, and compute the place of every rank's part (tutti_parts in tutti/backend.h).
 */
#ifndef TTI_API_COLLECTIVES_PARTS_H
#define TTI_API_COLLECTIVES_PARTS_H

#include "api/check.h"

/* One equal part for each rank. */
tutti_status tti_parts_equal(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                             int32_t dim, tutti_parts *parts);

/* The joined tensor alone, cut into one equal part for each rank. */
tutti_status tti_parts_cut(const struct tti_checker *k, const struct tti_view *joined, int32_t dim, tutti_parts *parts);

/* The lists of a variable-count form. */
struct tti_counts {
    const char *counts_name; /* "send_counts" */
    const char *displacements_name;
    const int64_t *counts;
    const int64_t *displacements; /* NULL: the parts follow one another */
    bool written;                 /* the parts are outputs: they must not overlap */
};

/* Checks the counts, and computes their sum. */
tutti_status tti_parts_sum(const struct tti_checker *k, const struct tti_counts *list, int64_t *sum);

/* Parts of different length. */
tutti_status tti_parts_variable(const struct tti_checker *k, const struct tti_view *joined, int32_t dim,
                                const struct tti_counts *list, tutti_parts *parts);

/* This rank's part of a variable-count form: counts[rank] rows along `dim`, the other lengths as in the joined
 * tensor. */
tutti_status tti_check_own_rows(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                                int32_t dim, const struct tti_counts *list);

/* The same dtype, and the same length of every dimension except `dim`. */
tutti_status tti_check_same_rows(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b,
                                 int32_t dim);

/* No common byte, or the part is exactly this rank's part of the joined tensor, and contiguous. */
tutti_status tti_check_own_part(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                                const tutti_parts *parts, int32_t dim);

/* The bytes of all parts must fit into 63 bits, also on a rank that has only its own part. */
tutti_status tti_check_all_parts(const struct tti_checker *k, const struct tti_view *part);

#endif
