/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_CONTENDERS_H
#define TTI_BENCH_COMPARE_CONTENDERS_H

#include "bench/compare/comparison.h"

/* Reads the list `compare->vs`. False if it cannot be understood; the reason is on standard error. */
bool tti_compare_contenders(struct tti_comparison *c);
/* Notes for each contender which program or plug-in is missing, if any. */
void tti_compare_find_programs(struct tti_comparison *c);
void tti_compare_contender_free(struct tti_compare_contender *contender);

#endif
