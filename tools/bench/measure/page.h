/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that all ranks of a host share, for what is measured without the library. */
#ifndef TOOLS_BENCH_MEASURE_PAGE_H
#define TOOLS_BENCH_MEASURE_PAGE_H

#include "bench/bench.h"

struct tti_bench_page {
    unsigned char *memory; /* zero at first; NULL on every rank if one rank could not get it */
};

/* Collective. Returning no memory is not a failure. False: b->error has the details. */
bool tti_bench_page_open(struct tti_bench *b, struct tti_bench_page *page);
void tti_bench_page_close(struct tti_bench_page *page);

#endif
