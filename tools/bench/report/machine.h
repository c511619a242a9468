/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine on which the numbers were measured. */
#ifndef TOOLS_BENCH_REPORT_MACHINE_H
#define TOOLS_BENCH_REPORT_MACHINE_H

#include "bench/bench.h"

struct tti_bench_machine {
    char cpu[128];
    char kernel[128];
    const char *isa;
    int cpus; /* that the ranks may use, all together */
    double ranks_per_cpu;
    int64_t clock_ns;  /* of one reading */
    char *description; /* of the group */
};

/* Collective. False: b->error has the details. */
bool tti_bench_machine_create(struct tti_bench *b, struct tti_bench_machine *machine);
void tti_bench_machine_destroy(struct tti_bench_machine *machine);

#endif
