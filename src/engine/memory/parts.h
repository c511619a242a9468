/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of joined tensors: parts.c. Positions inside a part count bytes of its compact form. */
#ifndef TTI_ENGINE_MEMORY_PARTS_H
#define TTI_ENGINE_MEMORY_PARTS_H

#include "engine/lane.h"

/* Bytes of the largest part. */
size_t tti_part_bytes_max(const tutti_parts *parts, int size);

/* Bytes of the larger of a rank's two tensors, of the rank with the most. Classes and thresholds depend on it. */
size_t tti_call_bytes(const struct tti_lane *lane, const tutti_op *op);

/* Copy bytes [from, from + n) of a part: out of the joined tensor, out of it into the own stage, into it. */
void tti_part_read(struct tti_lane *lane, void *dst, const void *joined, const tutti_parts *parts, int rank,
                   size_t from, size_t n);
void tti_part_stage(struct tti_lane *lane, void *span, const void *joined, const tutti_parts *parts, int rank,
                    size_t from, size_t n);
void tti_part_write(struct tti_lane *lane, void *joined, const tutti_parts *parts, int rank, size_t from,
                    const void *src, size_t n);

/* Copies a rank's part of one joined tensor to its part of another one, of as many bytes. Both may have rows, of
 * different lengths. */
void tti_part_copy(struct tti_lane *lane, void *to, const tutti_parts *to_parts, const void *from,
                   const tutti_parts *from_parts, int rank);

/* The address of a part that is compact inside the joined tensor (outer <= 1); else NULL. */
const unsigned char *tti_part_direct(const void *joined, const tutti_parts *parts, int rank);

/* Bytes of a part that fall into its k-th chunk of `chunk` bytes; 0 behind the end. */
static inline size_t tti_chunk_bytes(size_t bytes, size_t chunk, size_t k)
{
    size_t from = k * chunk;
    return from >= bytes ? 0 : (bytes - from < chunk ? bytes - from : chunk);
}

#endif
