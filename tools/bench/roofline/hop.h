/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a cache line takes from rank 0 to rank 1 and back. */
#ifndef TTI_BENCH_ROOFLINE_HOP_H
#define TTI_BENCH_ROOFLINE_HOP_H

#include <stdatomic.h>

#include "bench/bench.h"
#include "bench/roofline/page.h"

#define TTI_ROOFLINE_NEAR_NS 150  /* a hop below this stays within a group of cores */
#define TTI_ROOFLINE_SAME_NS 1000 /* one above this needs a switch between two ranks on one CPU */

struct tti_hop {
    struct tti_hop_page *page;
    bool known;        /* the same on every rank */
    uint64_t sequence; /* exchanges so far */
};

void tti_hop_open(const struct tti_bench *b, const struct tti_roofline_page *page, struct tti_hop *hop);
/* *ns becomes 0 where the hop cannot be known. */
bool tti_hop_measure(struct tti_bench *b, struct tti_hop *hop, double *ns);

#endif
