/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of joined tensors. A part in its compact form is a run of bytes; inside the joined tensor the same bytes lie in
 * `outer` chunks, one per row. These functions copy any range of that run, so that algorithms can cut windows where they
 * like.
 */
#include "engine/collectives/transfer.h"

static size_t row_bytes(const tutti_parts *p, int rank)
{
    return (size_t)(p->counts ? p->counts[rank] : p->each) * p->unit;
}

static size_t row_offset(const tutti_parts *p, int rank)
{
    if (p->displacements) {
        return (size_t)p->displacements[rank] * p->unit;
    }
    if (!p->counts) {
        return (size_t)rank * (size_t)p->each * p->unit;
    }
    size_t offset = 0;
    for (int r = 0; r < rank; r++) {
        offset += (size_t)p->counts[r] * p->unit;
    }
    return offset;
}

size_t tti_part_bytes(const tutti_parts *parts, int rank)
{
    return parts->outer * row_bytes(parts, rank);
}

size_t tti_part_bytes_max(const tutti_parts *parts, int size)
{
    if (!parts->counts) {
        return tti_part_bytes(parts, 0);
    }
    size_t most = 0;
    for (int r = 0; r < size; r++) {
        size_t bytes = tti_part_bytes(parts, r);
        most = bytes > most ? bytes : most;
    }
    return most;
}

const unsigned char *tti_part_direct(const void *joined, const tutti_parts *parts, int rank)
{
    return parts->outer <= 1 ? (const unsigned char *)joined + row_offset(parts, rank) : NULL;
}

unsigned char *tti_part_chunk(const void *joined, const tutti_parts *parts, int rank, size_t from, size_t *n)
{
    if (parts->outer <= 1) { /* the usual case, without divisions */
        return (unsigned char *)joined + row_offset(parts, rank) + from;
    }
    size_t width = row_bytes(parts, rank);
    size_t in_row = from % width;
    *n = width - in_row < *n ? width - in_row : *n;
    return (unsigned char *)joined + row_offset(parts, rank) + from / width * parts->pitch + in_row;
}

typedef void (*move_function)(struct tti_lane *lane, void *dst, const void *src, size_t n);

static inline void part_read(struct tti_lane *lane, void *dst, const void *joined, const tutti_parts *parts, int rank,
                             size_t from, size_t n, move_function move)
{
    for (unsigned char *to = dst; n > 0;) {
        size_t chunk = n;
        const unsigned char *at = tti_part_chunk(joined, parts, rank, from, &chunk);
        move(lane, to, at, chunk);
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
        unsigned char *at = tti_part_chunk(joined, parts, rank, from, &chunk);
        tti_copy_to_output(lane, at, in, chunk);
        in += chunk;
        from += chunk;
        n -= chunk;
    }
}
