/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a rank's part lies in the rows of a joined tensor: tutti_parts in bytes. */
#ifndef TTI_TENSOR_PARTS_H
#define TTI_TENSOR_PARTS_H

#include <tutti/backend.h>

/* The units of a part in each row. */
static inline int64_t tti_parts_units(const tutti_parts *p, int32_t rank)
{
    return p->counts ? p->counts[rank] : p->each;
}

/* The bytes of a part in each row. */
static inline size_t tti_parts_width(const tutti_parts *p, int32_t rank)
{
    return (size_t)tti_parts_units(p, rank) * p->unit;
}

/* Where a part begins in each row. Cost: linear in `rank` if there are counts but no displacements. */
static inline size_t tti_parts_offset(const tutti_parts *p, int32_t rank)
{
    if (p->displacements) {
        return (size_t)p->displacements[rank] * p->unit;
    }
    size_t units = p->counts ? 0 : (size_t)rank * (size_t)p->each;
    for (int32_t r = 0; p->counts && r < rank; r++) {
        units += (size_t)p->counts[r];
    }
    return units * p->unit;
}

/* Byte `from` of a part in its compact form, in the joined tensor. Reduces *n to the bytes that follow it in the same
 * row. */
static inline unsigned char *tti_parts_at(const tutti_parts *p, int32_t rank, const void *joined, size_t from,
                                          size_t *n)
{
    const size_t width = tti_parts_width(p, rank);
    const size_t in_row = from % width;
    *n = width - in_row < *n ? width - in_row : *n;
    return (unsigned char *)(uintptr_t)joined + tti_parts_offset(p, rank) + from / width * p->pitch + in_row;
}

#endif
