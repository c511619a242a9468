/* SPDX-License-Identifier: BSD-3-Clause */
/* The inputs, and the expected outputs. */
#ifndef TOOLS_BENCH_MEASURE_DATA_H
#define TOOLS_BENCH_MEASURE_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <tutti/tutti.h>

struct tti_bench_data;

/* Data for one collective, for all ranks; op 0 = nothing is reduced. `wire` loosens the bound. NULL when memory is
 * exhausted. */
struct tti_bench_data *tti_bench_data_create(int ranks, tutti_dtype dtype, tutti_reduce_op op, tutti_wire wire,
                                             uint32_t capabilities);
void tti_bench_data_destroy(struct tti_bench_data *data);

/* The reduction of all ranks' inputs, as a source. */
#define TTI_BENCH_FOLD (-1)

/* Elements [first, first + count) of a rank's input in call number `number`. */
void tti_bench_data_fill(const struct tti_bench_data *data, void *out, int rank, uint64_t number, size_t first,
                         size_t count);
/* How many of these elements are not [first, first + count) of the source's in call number `number`. */
int64_t tti_bench_data_count_wrong(const struct tti_bench_data *data, const void *got, int source, uint64_t number,
                                   size_t first, size_t count);

#endif
