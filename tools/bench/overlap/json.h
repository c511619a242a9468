/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_OVERLAP_JSON_H
#define TTI_BENCH_OVERLAP_JSON_H

#include "bench/overlap/overlap.h"
#include "bench/overlap/steps.h"

struct json_t;

/* False when memory is exhausted. */
bool tti_overlap_json(struct json_t *root, const struct tti_overlap *o, int64_t bandwidth,
                      const struct tti_overlap_result results[TTI_OVERLAP_FORMS]);

#endif
