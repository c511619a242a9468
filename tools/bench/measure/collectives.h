/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that can be measured. */
#ifndef TOOLS_BENCH_MEASURE_COLLECTIVES_H
#define TOOLS_BENCH_MEASURE_COLLECTIVES_H

#include "bench/beside/peer.h"
#include "bench/options.h"
#include "check/operation/calls.h"

enum {
    TTI_BENCH_REDUCES = 1,
    TTI_BENCH_ROOT_INPUT = 2,    /* only the root has an input                                       */
    TTI_BENCH_ROOT_OUTPUT = 4,   /* only the root has an output                                      */
    TTI_BENCH_WHOLE_INPUT = 8,   /* the input consists of one part for each rank                     */
    TTI_BENCH_WHOLE_OUTPUT = 16, /* the output does                                                  */
    TTI_BENCH_IN_PLACE = 32,     /* has an in-place form beside the other                            */
    TTI_BENCH_ONE_TENSOR = 64,   /* its only tensor is input and output                              */
    TTI_BENCH_NEIGHBOUR = 128,   /* the output comes from one other rank                             */
    TTI_BENCH_EMPTY = 256        /* has no tensors                                                   */
};

/* Bytes on the bus for each byte of size, as nccl-tests counts them for n ranks. */
enum tti_bench_bus {
    TTI_BENCH_BUS_ONE,    /* 1          */
    TTI_BENCH_BUS_OTHERS, /* (n-1)/n    */
    TTI_BENCH_BUS_TWICE   /* 2 (n-1)/n  */
};

/* One call, with its tensors. The operation has NULL where the collective takes none on this rank. */
struct tti_bench_tensors {
    DLTensor input;
    DLTensor output;
    struct tti_check_operation operation;
};

struct tti_bench_collective {
    const char *name;
    tutti_operation kind;     /* SEND: to the next rank, and receive from the one before */
    enum tti_check_kind call; /* the same */
    unsigned traits;
    enum tti_bench_bus bus;
    enum tti_bench_pattern pattern;
};

extern const struct tti_bench_collective tti_bench_collectives[];
extern const size_t tti_bench_collectives_count;

/* A bit for each collective that `all` stands for: those without a pattern. */
uint32_t tti_bench_all(void);
/* Whether the options want it. */
bool tti_bench_chosen(const struct tti_bench_options *options, const struct tti_bench_collective *collective);
/* By name, in any case, with or without '_' and '-' (allreduce, all-reduce); NULL if there is none. */
const struct tti_bench_collective *tti_bench_find(const char *name);
double tti_bench_bus_factor(enum tti_bench_bus bus, int ranks);

#endif
