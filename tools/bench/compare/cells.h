/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_COMPARE_CELLS_H
#define TTI_BENCH_COMPARE_CELLS_H

#include "bench/compare/comparison.h"

/* Takes the rows of a block. False if the document is invalid. */
bool tti_compare_take_block(struct tti_comparison *c, int contender, const struct json_t *document, char *why,
                            size_t capacity);
void tti_compare_cells_free(struct tti_comparison *c);

#endif
