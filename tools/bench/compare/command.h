/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_COMMAND_H
#define TTI_BENCH_COMPARE_COMMAND_H

#include "bench/compare/comparison.h"
#include "bench/measure/collectives.h"

#define TTI_COMPARE_WORDS 48 /* of a command line */

/* Its arguments are closed by NULL. */
struct tti_compare_command {
    const char *words[TTI_COMPARE_WORDS];
    int count;
    char names[TTI_BENCH_NAMES]; /* memory for the list of collectives, and for numbers */
    char numbers[9][24];
    int numbers_used;
};

/* The first size at which the heap is compared, too; 0 if there is none. */
int64_t tti_compare_heap_from(const struct tti_comparison *c);
/* The block of a contender; the file for the JSON is added if it is not NULL. */
void tti_compare_command(const struct tti_comparison *c, const struct tti_compare_contender *contender, bool heap,
                         const char *json, struct tti_compare_command *command);
/* As one line, with the variables before it; NULL when memory is exhausted. */
char *tti_compare_command_line(const struct tti_comparison *c, const struct tti_compare_contender *contender,
                               const struct tti_compare_command *command);

#endif
