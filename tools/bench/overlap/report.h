/* SPDX-License-Identifier: BSD-3-Clause */
/* The table. */
#ifndef TTI_BENCH_OVERLAP_REPORT_H
#define TTI_BENCH_OVERLAP_REPORT_H

#include "bench/overlap/overlap.h"
#include "bench/overlap/steps.h"

/* Only the forms that do both are judged by the longer of the two. */
static inline bool tti_overlap_does_both(int form)
{
    return form != TTI_OVERLAP_COMPUTE && form != TTI_OVERLAP_COMMUNICATE;
}

void tti_overlap_print_header(const struct tti_overlap *o, int64_t bandwidth);
void tti_overlap_print(const struct tti_overlap *o, const struct tti_overlap_result results[TTI_OVERLAP_FORMS]);

#endif
