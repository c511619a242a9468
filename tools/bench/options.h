/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `tutti bench`. */
#ifndef TOOLS_BENCH_OPTIONS_H
#define TOOLS_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <tutti/tutti.h>

#define TTI_BENCH_RANKS      1024 /* at most */
#define TTI_BENCH_ITERATIONS 2000 /* of a row at most, unless the user says how many */
#define TTI_BENCH_BATCH      20   /* calls that are timed together ... */
#define TTI_BENCH_SMALL      4096 /* ... below this size */
#define TTI_BENCH_SIZES      64   /* that --sizes takes at most */
#define TTI_BENCH_PAGE       4096 /* bytes */

struct tti_bench_options {
    bool overlap;       /* `tutti bench overlap` instead of a collective */
    bool async;         /* the asynchronous form beside the synchronous one */
    bool persistent;    /* Tutti's calls of an iteration are one list, which is run by one call */
    const char *beside; /* NAME[:SETTINGS] of the peer that is measured alternately with Tutti, or NULL */
    bool roofline;      /* measure the limits of the machine, too */
    bool heap;          /* Tutti's buffers lie in the group's heap */
    size_t offset;      /* bytes between the page and the beginning of a buffer in host memory */
    uint32_t chosen;    /* collectives: a bit for each; 0 = all */
    int ranks;          /* 0 = not said */
    int64_t least;      /* sizes in bytes */
    int64_t most;
    int64_t factor;
    int64_t sizes[TTI_BENCH_SIZES]; /* these instead; ascending */
    int size_count;                 /* 0 = least to most */
    int64_t budget_ns;              /* for a row and each kind of iteration; 0 = the default */
    bool peer_sleeps;               /* the peer's calls start from a sleep instead of a spin */
    tutti_dtype dtype;
    tutti_reduce_op op;
    tutti_wire wire; /* of Tutti's own calls, not of the peer's */
    int root;
    int iterations;  /* 0 = as many as the time allows */
    int64_t step_ms; /* overlap: length of a step's computation, and of its communication */
    int chunks;      /* overlap: of a pipeline */
    const char *backend;
    const char *device; /* NULL = as the library decides */
    const char *json;   /* file to write, or NULL */
};

/* Measures as a rank of the job. Without a job, starts ranks: threads, or processes with these arguments (closed by
 * NULL) after `tutti bench`. Returns the exit code. */
int tti_bench_start(struct tti_bench_options *options, char **words);
/* Whether a job of so many ranks has the root; else prints the error if that is wanted. */
bool tti_bench_root_fits(const struct tti_bench_options *options, int ranks, bool prints);

#endif
