/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a comparison.
 *
 * A contender is a library with certain settings. A block is one job of one contender: its ranks run `tutti bench
 * --beside`, which calls Tutti and the contender alternately. All contenders run a block each, once per repetition. A
 * cell holds the samples of all blocks for one collective, size, form, placement and class of hop.
 */
#ifndef TTI_BENCH_COMPARE_COMPARISON_H
#define TTI_BENCH_COMPARE_COMPARISON_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/compare/compare.h"
#include "bench/options.h"

#define TTI_COMPARE_CONTENDERS 8

/* A library with one choice of settings. */
struct tti_compare_setup {
    const char *library;
    const char *settings;           /* "default" for its own */
    const char *launcher;           /* NULL: `tutti run` starts its ranks */
    const char *const *launch;      /* arguments between launcher and number of ranks, closed by NULL */
    const char *const *environment; /* variables on top, closed by NULL; or NULL */
    const char *beside;             /* the argument of --beside */
    const char *install;            /* packages of Debian: to run it, and to build its plug-in */
    const char *develop;
    const char *only; /* the one collective in which its settings make a difference, or NULL */
};

struct tti_compare_contender {
    const struct tti_compare_setup *setup;
    char name[32];  /* as columns and files call it: openmpi/t */
    char *launcher; /* its path; NULL while it is missing */
    char *missing;  /* why it cannot take part, and what to install; or NULL */
    char version[160];
    int blocks; /* that have ended, well or not */
    int failed; /* of these */
    int64_t wrong;
    char *failure; /* of the last block that failed */
};

/* Two ranks are on CPUs near each other or far, or on the same one. The hop of a cache line between them decides,
 * measured before and after a row; MOVED: the two measurements are of different classes. With more ranks than CPUs it
 * is SAME. */
enum tti_compare_hop {
    TTI_COMPARE_UNKNOWN,
    TTI_COMPARE_NEAR,
    TTI_COMPARE_FAR,
    TTI_COMPARE_SAME,
    TTI_COMPARE_MOVED,
    TTI_COMPARE_HOPS
};

/* A row of one block. */
struct tti_compare_sample {
    enum tti_compare_hop hop;
    double p50;
    double p99;
    double ratio, low, high; /* Tutti's time over this; 0 on Tutti's own rows */
    double bound_us;         /* lower bound of the time, 0 = not known */
};

/* The samples of Tutti, or of one contender, in one cell, and their combined result. */
struct tti_compare_entry {
    struct tti_compare_sample *samples;
    int count;
    double p50;
    double p99;
    double ratio, low, high;
    double bound_us; /* 0 = not known */
};

struct tti_compare_cell {
    const char *collective;
    int order; /* of the collective */
    int64_t size;
    bool in_place;
    bool heap;
    char algorithm[16]; /* how Tutti's call ran in the last block; "" = unknown */
    enum tti_compare_hop hop;
    struct tti_compare_entry tutti;
    struct tti_compare_entry peers[TTI_COMPARE_CONTENDERS];
    int best;       /* contender, -1 = none to compare with */
    bool lost;      /* the interval of its ratio lies wholly above 1 */
    bool main;      /* of the cells that differ in their hop class only, the one with most samples */
    bool partial;   /* a contender was measured in another class only */
    bool tabulated; /* in tables */
    bool counted;   /* in means and numbers of cells */
};

struct tti_comparison {
    const struct tti_bench_options *options;
    const struct tti_compare_options *compare;
    const char *self; /* this program */
    struct tti_compare_contender contenders[TTI_COMPARE_CONTENDERS];
    int contender_count;
    struct tti_compare_cell *cells;
    size_t cell_count;
    struct json_t *config; /* of Tutti's first block: the machine */
    int64_t wrong;         /* elements that Tutti got wrong */
    double seconds;        /* of the whole comparison */
};

#endif
