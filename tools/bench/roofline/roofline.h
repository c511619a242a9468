/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of the machine: the time that a collective's bytes take at the bandwidth of plain loops, and the time that
 * a cache line takes from one rank to another. */
#ifndef TOOLS_BENCH_ROOFLINE_ROOFLINE_H
#define TOOLS_BENCH_ROOFLINE_ROOFLINE_H

#include <stdatomic.h>

#include "bench/bench.h"
#include "bench/measure/measure.h"
#include "bench/measure/page.h"

/* All functions here are collective, apart from closing. */

/* ---- hop.c: how long a cache line takes from rank 0 to rank 1 and back ---- */

#define TTI_ROOFLINE_NEAR_NS 150  /* a hop below this stays within a group of cores */
#define TTI_ROOFLINE_SAME_NS 1000 /* one above this needs a switch between two ranks on one CPU */

struct tti_hop {
    struct tti_hop_page *page;
    bool known;        /* the same on every rank */
    uint64_t sequence; /* exchanges so far */
};

void tti_hop_open(const struct tti_bench *b, const struct tti_bench_page *page, struct tti_hop *hop);
/* *ns becomes 0 where the hop cannot be known. */
bool tti_hop_measure(struct tti_bench *b, struct tti_hop *hop, double *ns);

/* ---- roofline.c ---- */

#define TTI_ROOFLINE_SIZES 256

/* Bytes loaded and stored in a nanosecond, by each rank while all ranks do the same. */
struct tti_bandwidth {
    int64_t bytes; /* of the working set: two memories of so many */
    double copy;
    double fold; /* of two f32 sources into a third place */
};

struct tti_roofline {
    struct tti_bench_page page;
    struct tti_hop hop;
    struct tti_bandwidth sizes[TTI_ROOFLINE_SIZES]; /* the measurements so far */
    int count;
};

/* Makes b->roofline. False: b->error has the details, here and below. */
bool tti_roofline_open(struct tti_bench *b);
void tti_roofline_close(struct tti_bench *b);
bool tti_roofline_hop(struct tti_bench *b, double *ns);
/* The lower bound of the time of b->collective at this size, by the bytes that it has to transfer; 0 = none. */
bool tti_roofline_bound(struct tti_bench *b, int64_t bytes, bool in_place, double *us);
/* Raises the bound of a result to the hop if every rank needs data of another rank. */
void tti_roofline_raise_bound(const struct tti_bench *b, struct tti_bench_result *result);
/* "near", "far", "same" (they share a CPU), "moved" (it changed during the row), or "-". */
const char *tti_roofline_hop_class(const double hop_ns[2]);

#endif
