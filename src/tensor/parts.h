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

/* The units of the parts of all ranks before `rank` in each row. Cost: linear in `rank` if there are counts. */
static inline size_t tti_parts_units_before(const tutti_parts *p, int32_t rank)
{
    size_t units = p->counts ? 0 : (size_t)rank * (size_t)p->each;
    for (int32_t r = 0; p->counts && r < rank; r++) {
        units += (size_t)p->counts[r];
    }
    return units;
}

/* The bytes of a part in each row; 0 without rows. */
static inline size_t tti_parts_width(const tutti_parts *p, int32_t rank)
{
    return p->outer == 0 ? 0 : (size_t)tti_parts_units(p, rank) * p->unit;
}

/* The bytes of a part in all rows. */
static inline size_t tti_parts_bytes(const tutti_parts *p, int32_t rank)
{
    return p->outer * (size_t)tti_parts_units(p, rank) * p->unit;
}

/* The bytes of the parts of ranks 0 to `ranks` - 1 in all rows. Cost: linear in `ranks` if there are counts. */
static inline size_t tti_parts_total(const tutti_parts *p, int32_t ranks)
{
    return p->outer * tti_parts_units_before(p, ranks) * p->unit;
}

/* Where a part begins in each row. Cost: linear in `rank` if there are counts but no displacements. */
static inline size_t tti_parts_offset(const tutti_parts *p, int32_t rank)
{
    return (p->displacements ? (size_t)p->displacements[rank] : tti_parts_units_before(p, rank)) * p->unit;
}

/* Byte `from` of a part in its compact form, in the joined tensor. The part has *n bytes from there on, or
 * more. Reduces *n to those that lie in the same row. */
static inline unsigned char *tti_parts_at(const tutti_parts *p, int32_t rank, const void *joined, size_t from,
                                          size_t *n)
{
    unsigned char *row = (unsigned char *)(uintptr_t)joined + tti_parts_offset(p, rank);
    if (p->outer <= 1) { /* the usual case, without divisions */
        return row + from;
    }
    const size_t width = tti_parts_width(p, rank);
    const size_t in_row = from % width;
    *n = width - in_row < *n ? width - in_row : *n;
    return row + from / width * p->pitch + in_row;
}

#endif
