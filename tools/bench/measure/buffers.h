/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers to send from and receive into, in host memory or on a device. */
#ifndef TOOLS_BENCH_MEASURE_BUFFERS_H
#define TOOLS_BENCH_MEASURE_BUFFERS_H

#include "bench/bench.h"

/* The two memories of b->capacity bytes, in the group's heap or of the rank's own; false after saying why.
 * Collective. */
bool tti_bench_open_memory(struct tti_bench *b, bool heap);
void tti_bench_close_memory(struct tti_bench *b, bool heap);
/* Begins to write the content of memory of b->left or b->right: returns where to write; the second function ends the
 * write. False: b->error has the details. */
void *tti_bench_write_begin(const struct tti_bench *b, void *memory);
bool tti_bench_write_end(struct tti_bench *b, void *memory, size_t bytes);
/* Where to read the content, until the next of these calls; NULL on failure, and b->error has the details. */
const void *tti_bench_read(struct tti_bench *b, const void *memory, size_t bytes);

#endif
