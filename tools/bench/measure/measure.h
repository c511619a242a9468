/* SPDX-License-Identifier: BSD-3-Clause */
/* One row of the table. */
#ifndef TOOLS_BENCH_MEASURE_MEASURE_H
#define TOOLS_BENCH_MEASURE_MEASURE_H

#include "bench/bench.h"
#include "bench/measure/samples.h"
#include "bench/options.h"

/* The calls of an iteration: the sets of samples. */
enum tti_bench_form {
    TTI_BENCH_SYNC,
    TTI_BENCH_PEER, /* the peer that is measured beside Tutti */
    TTI_BENCH_ASYNC,
    TTI_BENCH_SUBMIT, /* as ASYNC, and one call's start is timed instead of the whole */
    TTI_BENCH_FORMS
};

/* Tutti against the peer beside it. */
struct tti_bench_ratio {
    double median; /* Tutti's median over the other's: below 1 Tutti is faster */
    double low;    /* the interval that holds 95 % of what resampling gives */
    double high;
};

/* The peer's results in the same row. */
struct tti_bench_versus {
    bool measured; /* false: it has no native call for this */
    int batch;
    struct tti_bench_times time;
    double alg_bw;
    double bus_bw;
    int64_t wrong;
    struct tti_bench_ratio ratio;
};

/* A form of a row: the result of many iterations. */
struct tti_bench_result {
    bool measured;
    bool in_place;
    int64_t bytes; /* size */
    int64_t count; /* elements of the tensor, or of one part */
    int iterations;
    int batch;
    struct tti_bench_times time;
    struct tti_bench_times
        submit; /* these two only with options->async: then `time` is that of the asynchronous form */
    struct tti_bench_times sync;
    double alg_bw; /* 1e9 bytes per second */
    double bus_bw;
    int64_t wrong;                  /* elements, of all ranks */
    struct tti_bench_versus versus; /* only with b->beside */
    double hop_ns[2];               /* only with b->roofline: before and after; 0 = unknown */
    double bound_us;                /* likewise; 0 = there is none */
    const char *algorithm;          /* how the last call ran here, as the engine says; NULL = unknown */
};

/* Bytes of each of a rank's two memories that these options need. */
int64_t tti_bench_capacity(const struct tti_bench_options *options, int ranks);
/* Elements of the tensor or of one part at a size, at least 1; 0 for a collective without tensors. */
int64_t tti_bench_count(const struct tti_bench *b, int64_t bytes);
/* Measures b->collective, with the same result on every rank. False: b->error has the details. */
bool tti_bench_measure(struct tti_bench *b, int64_t count, bool in_place, struct tti_bench_result *result);

#endif
