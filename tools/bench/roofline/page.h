/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that all ranks share. */
#ifndef TTI_BENCH_ROOFLINE_PAGE_H
#define TTI_BENCH_ROOFLINE_PAGE_H

#include "bench/bench.h"

#define TTI_ROOFLINE_PAGE 4096 /* bytes */

struct tti_roofline_page {
    unsigned char *memory; /* zero at first; NULL on every rank if one rank could not get it */
    bool mapped;           /* else it is memory of the process */
};

/* Returning no memory is not a failure. All functions here are collective, apart from closing. */
bool tti_roofline_page_open(struct tti_bench *b, struct tti_roofline_page *page);
void tti_roofline_page_close(const struct tti_bench *b, struct tti_roofline_page *page);

#endif
