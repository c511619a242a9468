/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti bench --vs`: Tutti against other libraries, each started by its own launcher, in one session.
 *
 *   compare.c     runs the blocks, from the first to the report
 *   contenders.c  the libraries and settings that --vs may name
 *   command.c     the command line of a block
 *   process.c     the processes of a block
 *   cells.c       from the JSON of a block to cells
 *   evaluate.c    combines the repetitions of a cell
 *   table.c       the result for people
 *   record.c      the result as a CSV file
 */
#ifndef TTI_BENCH_COMPARE_H
#define TTI_BENCH_COMPARE_H

#include "bench/options.h"

#define TTI_COMPARE_REPEAT 99 /* at most */

struct tti_compare_options {
    const char *vs;     /* NULL = no comparison */
    const char *record; /* file to write, or NULL */
    int repeat;
    int64_t limit_ms;  /* of a block; 0 = by the number of its rows */
    int64_t heap_from; /* also with Tutti's buffers in the heap, from this size on; 0 = not */
};

/* Runs the whole comparison, outside of any launcher. The exit code of the program. */
int tti_compare_start(const struct tti_bench_options *options, const struct tti_compare_options *compare);

#endif
