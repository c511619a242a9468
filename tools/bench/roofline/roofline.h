/* SPDX-License-Identifier: BSD-3-Clause */
/* What the machine allows: how long the bytes that a collective has to move take at the bandwidth of plain loops, and
 * how long a cache line takes from one rank to another. */
#ifndef TTI_BENCH_ROOFLINE_H
#define TTI_BENCH_ROOFLINE_H

#include <stdatomic.h>

#include "bench/bench.h"

#define TTI_ROOFLINE_NEAR_NS 150  /* a hop below this stays within a group of cores */
#define TTI_ROOFLINE_SAME_NS 1000 /* one above this needs a switch between two ranks on one CPU */

/* ---- page.c: memory that all ranks see ---- */

#define TTI_ROOFLINE_PAGE 4096 /* bytes */

struct tti_roofline_page {
    unsigned char *memory; /* zero at first; NULL on every rank where there is none for all */
    bool mapped;           /* else it is memory of the process */
};

/* That there is none is no failure. Collective, as all here but closing. */
tutti_status tti_roofline_page_open(struct tti_bench *b, struct tti_roofline_page *page);
void tti_roofline_page_close(const struct tti_bench *b, struct tti_roofline_page *page);

/* ---- hop.c: a cache line between ranks 0 and 1 ---- */

struct tti_hop {
    struct tti_hop_page *page;
    bool known;        /* the same on every rank */
    uint64_t sequence; /* exchanges so far */
};

void tti_hop_open(const struct tti_bench *b, const struct tti_roofline_page *page, struct tti_hop *hop);
/* *ns becomes 0 where the hop cannot be known. */
tutti_status tti_hop_measure(struct tti_bench *b, struct tti_hop *hop, double *ns);

/* ---- roofline.c ---- */

#define TTI_ROOFLINE_SIZES 256

/* Bytes loaded and stored in a nanosecond, by each rank while all ranks do the same. */
struct tti_bandwidth {
    int64_t bytes; /* of the working set: two memories of so many */
    double copy;
    double fold; /* of two f32 sources into a third place */
};

struct tti_roofline {
    struct tti_roofline_page page;
    struct tti_hop hop;
    struct tti_bandwidth sizes[TTI_ROOFLINE_SIZES]; /* those measured so far */
    int count;
};

/* Makes b->roofline. On failure b->error tells. */
tutti_status tti_roofline_open(struct tti_bench *b);
void tti_roofline_close(struct tti_bench *b);
tutti_status tti_roofline_hop(struct tti_bench *b, double *ns);
/* The time that no run of b->collective at this size can beat, by the bytes it has to move; 0 = it moves none. */
tutti_status tti_roofline_bound(struct tti_bench *b, int64_t bytes, bool in_place, double *us);
/* Lifts the bound of a result to the hop where every rank has to hear from another one. */
void tti_roofline_raise_bound(const struct tti_bench *b, struct tti_bench_result *result);
/* "near", "far", "same" (they share a CPU), "both" (it changed between near and the rest meanwhile), or "-". */
const char *tti_roofline_hop_class(const double hop_ns[2]);

#endif
