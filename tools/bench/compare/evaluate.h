/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_EVALUATE_H
#define TTI_BENCH_COMPARE_EVALUATE_H

#include "bench/compare/comparison.h"

/* Combines the repetitions of each cell, finds the best peers, decides which cells count, and sorts the cells. */
void tti_compare_evaluate(struct tti_comparison *c);

/* Geometric mean of ratios, and of how many. */
struct tti_compare_mean {
    double log_sum;
    int cells;
    int lost;
};

/* The mean over all cells of a collective (NULL = all) and placement (-1 = both). */
struct tti_compare_mean tti_compare_mean_of(const struct tti_comparison *c, const char *collective, int heap);
/* The mean of the ratios to one contender. */
struct tti_compare_mean tti_compare_mean_to(const struct tti_comparison *c, int contender);
/* 0 if there are no cells. */
double tti_compare_mean_value(const struct tti_compare_mean *mean);
/* Whether the interval of a contender's ratio lies wholly above 1. */
bool tti_compare_wins(const struct tti_compare_cell *cell, int contender);
/* Whether a contender was measured in a cell that differs in the hop class only. */
bool tti_compare_measured_elsewhere(const struct tti_comparison *c, const struct tti_compare_cell *cell, int contender);
/* Main cells in which a contender was measured, but not in the cell's hop class. */
int tti_compare_count_elsewhere(const struct tti_comparison *c, int contender);

#endif
