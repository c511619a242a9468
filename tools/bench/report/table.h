/* SPDX-License-Identifier: BSD-3-Clause */
/* The table. */
#ifndef TOOLS_BENCH_REPORT_TABLE_H
#define TOOLS_BENCH_REPORT_TABLE_H

#include "bench/bench.h"
#include "bench/measure/measure.h"
#include "bench/report/machine.h"

void tti_bench_print_header(const struct tti_bench *b, const struct tti_bench_machine *machine);
void tti_bench_print_title(const struct tti_bench *b);
void tti_bench_print_row(const struct tti_bench *b, const struct tti_bench_result *out_of_place,
                         const struct tti_bench_result *in_place);
void tti_bench_print_footer(int64_t wrong, double bus_bw_sum, int results);
void tti_bench_print_wrong(int64_t wrong);

/* The texts of the columns type, redop and root. */
const char *tti_bench_type(const struct tti_bench *b);
const char *tti_bench_redop(const struct tti_bench *b);
int tti_bench_root(const struct tti_bench *b);

#endif
