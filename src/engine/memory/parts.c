/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of joined tensors: the share of one rank in the input or output of a gather, scatter or all_to_all. In its
 * compact form a part is a run of bytes. Inside the joined tensor the same bytes lie in `outer` rows. These functions
 * copy any range of that run, so algorithms can cut chunks anywhere.
 */
#include "engine/memory/parts.h"

#include "engine/memory/copy.h"
#include "tensor/parts.h"

size_t tti_part_bytes_max(const tutti_parts *parts, int size)
{
    if (!parts->counts) {
        return tti_parts_bytes(parts, 0);
    }
    size_t most = 0;
    for (int r = 0; r < size; r++) {
        size_t bytes = tti_parts_bytes(parts, r);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t tti_call_bytes(const struct tti_lane *lane, const tutti_op *op)
{
    size_t size = (size_t)lane->engine->size;
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    switch (op->kind) {
    case TUTTI_OP_BARRIER:
        return 0;
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
        return bytes * size;
    case TUTTI_OP_ALL_GATHER:
        return tti_part_bytes_max(&op->recv_parts, (int)size) * size;
    case TUTTI_OP_REDUCE_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
        return tti_part_bytes_max(&op->send_parts, (int)size) * size;
    default:
        return bytes;
    }
}

const unsigned char *tti_part_direct(const void *joined, const tutti_parts *parts, int rank)
{
    return parts->outer <= 1 ? (const unsigned char *)joined + tti_parts_offset(parts, rank) : NULL;
}

typedef void (*copy_function)(struct tti_lane *lane, void *dst, const void *src, size_t n);

static inline void part_read(struct tti_lane *lane, void *dst, const void *joined, const tutti_parts *parts, int rank,
                             size_t from, size_t n, copy_function copy)
{
    for (unsigned char *to = dst; n > 0;) {
        size_t chunk = n;
        const unsigned char *at = tti_parts_at(parts, rank, joined, from, &chunk);
        copy(lane, to, at, chunk);
        to += chunk;
        from += chunk;
        n -= chunk;
    }
}

void tti_part_read(struct tti_lane *lane, void *dst, const void *joined, const tutti_parts *parts, int rank,
                   size_t from, size_t n)
{
    part_read(lane, dst, joined, parts, rank, from, n, tti_copy_counted);
}

void tti_part_stage(struct tti_lane *lane, void *span, const void *joined, const tutti_parts *parts, int rank,
                    size_t from, size_t n)
{
    part_read(lane, span, joined, parts, rank, from, n, tti_copy_to_stage);
}

void tti_part_write(struct tti_lane *lane, void *joined, const tutti_parts *parts, int rank, size_t from,
                    const void *src, size_t n)
{
    for (const unsigned char *in = src; n > 0;) {
        size_t chunk = n;
        unsigned char *at = tti_parts_at(parts, rank, joined, from, &chunk);
        tti_copy_to_output(lane, at, in, chunk);
        in += chunk;
        from += chunk;
        n -= chunk;
    }
}

void tti_part_copy(struct tti_lane *lane, void *to, const tutti_parts *to_parts, const void *from,
                   const tutti_parts *from_parts, int rank)
{
    unsigned char block[4096];
    const size_t bytes = tti_parts_bytes(from_parts, rank);
    const unsigned char *direct = bytes > 0 ? tti_part_direct(from, from_parts, rank) : NULL;
    if (direct) {
        tti_part_write(lane, to, to_parts, rank, 0, direct, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += sizeof(block)) {
        const size_t n = bytes - at < sizeof(block) ? bytes - at : sizeof(block);
        tti_part_read(lane, block, from, from_parts, rank, at, n);
        tti_part_write(lane, to, to_parts, rank, at, block, n);
    }
}
