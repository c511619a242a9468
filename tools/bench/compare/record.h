/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_RECORD_H
#define TTI_BENCH_COMPARE_RECORD_H

#include <stdio.h>

#include "bench/compare/comparison.h"

/* Closes the file in any case; false if it cannot be written. */
bool tti_compare_record(const struct tti_comparison *c, FILE *file);

#endif
