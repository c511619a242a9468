/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of `tutti bench kernels` share.
 *
 * A row is one fold: an instruction set, an element type, a reduction and a number of sources; a cell of it is one size.
 * The yardstick is memcpy over the same memory, which loads and stores as many bytes.
 */
#ifndef TTI_BENCH_KERNELS_H
#define TTI_BENCH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

#include "kernels/isa/table.h"

#define TTI_KERNELS_SIZES   32 /* of a row, at most */
#define TTI_KERNELS_SOURCES 64 /* of a fold, at most */
#define TTI_KERNELS_NUMBERS 16 /* of sources, at most */
#define TTI_KERNELS_TABLES  3

struct tti_kernels_options {
    bool all_dtypes;
    tutti_dtype dtype;
    tutti_reduce_op op;
    bool all_sets;
    size_t numbers[TTI_KERNELS_NUMBERS]; /* of sources */
    size_t number_count;
    int64_t least; /* bytes of one array; 0 = by the caches */
    int64_t most;
    const char *json;
};

struct tti_kernels_row {
    const struct tti_fold_table *table;
    tutti_dtype dtype;
    tutti_reduce_op op;
    size_t sources;
};

struct tti_kernels_cell {
    size_t bytes;   /* of each array */
    double fold_gb; /* 1e9 bytes loaded and stored per second, by the median */
    double copy_gb;
    int64_t wrong; /* elements */
};

/* The arrays: one behind the other, each at a place of its own within a page. */
struct tti_kernels_memory {
    unsigned char *at;
    size_t bytes;
};

/* ---- kernels.c ---- */

/* The sets that this CPU has and TUTTI_ISA allows, the best one first. */
size_t tti_kernels_tables(const struct tti_fold_table *tables[TTI_KERNELS_TABLES]);
/* Sizes of one array: by the options, or such that all arrays of a row fill half of each cache, and more than all. */
size_t tti_kernels_sizes(const struct tti_kernels_options *options, size_t sources, size_t sizes[TTI_KERNELS_SIZES]);
/* Bytes that the arrays of a row need. */
size_t tti_kernels_room(size_t sources, size_t bytes);
/* Measures and checks a cell. False if there is no memory for the check's data. */
bool tti_kernels_measure(const struct tti_kernels_memory *memory, const struct tti_kernels_row *row, size_t bytes,
                         struct tti_kernels_cell *cell);

/* ---- kernels_tool.c: the command line, and the table; argv[0] is "kernels" ---- */

int tti_kernels_tool(int argc, char **argv);

#endif
