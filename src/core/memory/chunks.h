/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation cut into chunks, so that copies to and from a device overlap with the engine's work on other chunks.
 *
 * Every collective transfers parts: one for each rank, or the one tensor of a reduction. A part is a sequence of
 * elements, wherever its rows lie in a joined tensor. Chunk k of an operation takes elements [k*step, (k+1)*step) of
 * every part. To the engine a chunk is the same collective on the short parts, packed one behind the other in memory of
 * the host. All ranks cut alike, because all of them know step and lengths. In all_to_all_v a rank knows its own counts
 * only, so that operation is one chunk.
 *
 * Cost: one copy in and one out per byte. Where the engine is slower than the copies, all but the first copy in and the
 * last copy out are hidden behind it.
 */
#ifndef TTI_CORE_MEMORY_CHUNKS_H
#define TTI_CORE_MEMORY_CHUNKS_H

#include <stdbool.h>
#include <tutti/backend.h>

#include "device/device.h"

/* One side of an operation as this rank sees it. */
struct tti_chunks_side {
    unsigned char *memory;    /* of the tensor; NULL: this rank has none, or it has no bytes */
    const tutti_parts *parts; /* joined; NULL: one part */
};

struct tti_chunks {
    const tutti_op *op;
    int32_t rank;
    int32_t size;
    size_t element;
    int64_t count; /* of chunks; at least 1 */
    int64_t step;  /* elements of a part */
    struct tti_chunks_side in;
    struct tti_chunks_side out;
    bool in_place; /* the engine may write the output over the input */
};

/* `bytes`: about as many of the larger tensor are in one chunk. */
void tti_chunks_cut(struct tti_chunks *p, const tutti_op *op, int32_t rank, int32_t size, size_t bytes);

/* Bytes that the largest chunk needs in host memory: [0] for the input, [1] for the output. */
void tti_chunks_room(const struct tti_chunks *p, size_t room[2]);

/* Chunk k as an operation for the engine, with its input at `in` and its output at `out`. `counts` has room for 2 *
 * size numbers and must live as long as the operation. */
tutti_op tti_chunks_op(const struct tti_chunks *p, int64_t k, void *in, void *out, int64_t *counts);

/* Queue the copies of chunk k: the input into `host`, or the output out of it. */
tutti_status tti_chunks_load(const struct tti_chunks *p, int64_t k, void *host, const struct tti_device *device,
                             void *stream, tutti_error *error);
tutti_status tti_chunks_store(const struct tti_chunks *p, int64_t k, const void *host, const struct tti_device *device,
                              void *stream, tutti_error *error);

#endif
