/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of joined tensors: where each lies, and copies of them on the lane's stream. */
#ifndef TTI_BACKENDS_NCCL_COLLECTIVES_PARTS_H
#define TTI_BACKENDS_NCCL_COLLECTIVES_PARTS_H

#include "backends/nccl/state.h"

/* A part of a joined tensor. An iteration over all parts starts with zero and tti_nccl_part_next. */
struct tti_nccl_part {
    size_t at;      /* its first byte, in every row */
    size_t width;   /* bytes in every row */
    size_t bytes;   /* in all rows */
    size_t packed;  /* its first byte when the parts are packed one after another */
    size_t follows; /* where the next part is if there are no displacements */
    int32_t next;   /* rank */
};
void tti_nccl_part_next(const tutti_parts *parts, struct tti_nccl_part *part);
void tti_nccl_part_of(const tutti_parts *parts, int32_t rank, struct tti_nccl_part *part);

/* Whether all parts have one length and follow one another, in one row or several. */
static inline bool tti_nccl_parts_plain(const tutti_parts *parts)
{
    return !parts->counts && !parts->displacements;
}

/* Whether each part is contiguous. */
static inline bool tti_nccl_parts_whole(const tutti_parts *parts)
{
    return parts->outer <= 1;
}

/* The address of a part: in `packed`, or in the joined tensor if `packed` is NULL. */
static inline unsigned char *tti_nccl_part_place(const void *joined, unsigned char *packed,
                                                 const struct tti_nccl_part *part)
{
    return packed ? packed + part->packed : (unsigned char *)joined + part->at;
}

/* Queue copies of all parts out of, or into, the joined tensor; `except` (a rank, or -1) is left out. */
tutti_status tti_nccl_pack(struct tti_nccl_call *c, unsigned char *packed, const void *joined,
                           const tutti_parts *parts);
tutti_status tti_nccl_unpack(struct tti_nccl_call *c, void *joined, const tutti_parts *parts,
                             const unsigned char *packed, int32_t except);
/* Queue a copy of one part, compact, out of or into the joined tensor. No copy if source and destination are the
 * same. */
tutti_status tti_nccl_part_out(struct tti_nccl_call *c, void *compact, const void *joined, const tutti_parts *parts,
                               int32_t rank);
tutti_status tti_nccl_part_in(struct tti_nccl_call *c, void *joined, const tutti_parts *parts, int32_t rank,
                              const void *compact);
/* Queue a copy of one rank's part from one joined tensor into another. */
tutti_status tti_nccl_part_across(struct tti_nccl_call *c, void *to, const tutti_parts *to_parts, const void *from,
                                  const tutti_parts *from_parts, int32_t rank);

#endif
