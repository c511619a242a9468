/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of `tutti bench`.
 *
 * A row of the table is one collective at one size in one form (out of place, in place). Every rank walks through the
 * same rows; the ranks agree on all that decides how they continue (the number of iterations, whether something
 * failed).
 */
#ifndef TOOLS_BENCH_BENCH_H
#define TOOLS_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <tutti/backend.h>

#include "bench/options.h"

struct tti_bench_collective;
struct tti_bench_data;
struct tti_beside;
struct tti_roofline;
struct tti_device_arena;
struct tti_bench_turns;

/* One rank's view of the run. */
struct tti_bench {
    const struct tti_bench_options *options;
    const struct tti_bench_collective *collective;
    tutti_group *group;   /* what is measured */
    tutti_group *control; /* on the CPU, for agreements of the ranks; the same group if it works there */
    int rank;
    int size;
    size_t item;         /* bytes of an element */
    unsigned char *left; /* memory for inputs, and for outputs, on the group's device */
    unsigned char *right;
    size_t capacity;                /* bytes of each */
    struct tti_device_arena *arena; /* NULL: the group works on the CPU; else copies to and from the buffers ... */
    unsigned char *mirror;          /* ... go through this much host memory */
    int64_t *samples;               /* sets of them, one behind the other */
    int sample_capacity;            /* of a set */
    struct tti_bench_data *data;
    uint64_t number;               /* of the next call: gives every call its own data */
    int64_t lead_ns;               /* how far ahead the ranks set a common start; 0 = they have no common clock */
    bool shares_cpu;               /* there are more ranks than CPUs */
    struct tti_bench_turns *turns; /* NULL = each rank has a CPU, the ranks share no memory, or Tutti is alone */
    struct tti_beside *beside;     /* NULL = Tutti is alone */
    struct tti_roofline *roofline; /* NULL = not wanted */
    tutti_error error;
};

int tti_bench_run_threads(const struct tti_bench_options *options);
int tti_bench_join(const struct tti_bench_options *options);
/* Prints the error on standard error, and returns false. */
bool tti_bench_print_error(const struct tti_bench *b, const char *doing, const char *why);

#endif
