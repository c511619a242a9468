/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that share a CPU let each other have it. */
#ifndef TOOLS_BENCH_MEASURE_TURNS_H
#define TOOLS_BENCH_MEASURE_TURNS_H

#include "bench/bench.h"

/* Collective; makes b->turns. Without more ranks than CPUs, or memory that they share, meetings do nothing. False:
 * b->error has the details. */
bool tti_bench_turns_open(struct tti_bench *b);
void tti_bench_turns_close(struct tti_bench *b);
/* Returns when all ranks have come to this meeting, or at until_ns. No library is called, and no rank holds up another
 * one that needs this CPU. */
void tti_bench_meet(struct tti_bench *b, int64_t until_ns);

#endif
