/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_TABLE_H
#define TTI_BENCH_COMPARE_TABLE_H

#include "bench/compare/comparison.h"

void tti_compare_print(const struct tti_comparison *c);

const char *tti_compare_hop_name(enum tti_compare_hop hop);
const char *tti_compare_place_name(const struct tti_compare_cell *cell);

#endif
