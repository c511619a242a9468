/* SPDX-License-Identifier: BSD-3-Clause */
/* The results as JSON. */
#ifndef TOOLS_BENCH_REPORT_JSON_H
#define TOOLS_BENCH_REPORT_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench/measure/measure.h"
#include "bench/measure/samples.h"
#include "bench/report/machine.h"

struct json_t;

/* An object with "config" and empty "results"; NULL when memory is exhausted. */
struct json_t *tti_bench_json_create(const struct tti_bench *b, const struct tti_bench_machine *machine);
bool tti_bench_json_add(struct json_t *root, const struct tti_bench *b, const struct tti_bench_result *result);
/* An object of the four numbers; NULL when memory is exhausted. */
struct json_t *tti_bench_json_times(const struct tti_bench_times *times);
/* Writes it, closes the file, and frees both, in any case. False: the reason is in errno. */
bool tti_bench_json_write(struct json_t *root, FILE *file);

#endif
