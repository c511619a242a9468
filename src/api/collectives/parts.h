/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joined tensors: the output of a gather, the input of a scatter, both sides of an all_to_all. These functions check
 * how a part and its joined tensor fit, and say where every rank's part lies (tutti_parts in tutti/backend.h).
 */
#ifndef TTI_API_PARTS_H
#define TTI_API_PARTS_H

#include "api/check.h"

/* One equal part per rank. */
tutti_status tti_parts_equal(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                             int32_t dim, tutti_parts *parts);

/* The joined tensor alone, cut into one equal part per rank. */
tutti_status tti_parts_cut(const struct tti_checker *k, const struct tti_view *joined, int32_t dim, tutti_parts *parts);

/* The lists of a v-form as the caller knows them. */
struct tti_counts {
    const char *counts_name; /* "send_counts" */
    const char *displacements_name;
    const int64_t *counts;
    const int64_t *displacements; /* NULL = one behind the other */
    bool written;                 /* the parts are outputs: they must not overlap */
};

/* The counts are right, and this is what they sum to. */
tutti_status tti_parts_sum(const struct tti_checker *k, const struct tti_counts *list, int64_t *sum);

/* Parts of different length. */
tutti_status tti_parts_variable(const struct tti_checker *k, const struct tti_view *joined, int32_t dim,
                                const struct tti_counts *list, tutti_parts *parts);

/* The own part of a v-form: counts[rank] rows along `dim`, all else as in the joined tensor. */
tutti_status tti_check_own_rows(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                                int32_t dim, const struct tti_counts *list);

/* The same dtype, and the same length of every dimension but `dim`. */
tutti_status tti_check_same_rows(const struct tti_checker *k, const struct tti_view *a, const struct tti_view *b,
                                 int32_t dim);

/* Either no byte in common, or the part is exactly the own part of the joined tensor and lies there in one piece. */
tutti_status tti_check_own_part(const struct tti_checker *k, const struct tti_view *part, const struct tti_view *joined,
                                const tutti_parts *parts, int32_t dim);

/* All parts together must be countable, also on a rank that sees only its own. */
tutti_status tti_check_all_parts(const struct tti_checker *k, const struct tti_view *part);

#endif
