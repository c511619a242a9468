/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formats in which f32 is sent between ranks. Each is a description: how many bytes so many elements take, and how
 * they are packed, folded and unpacked. The algorithms use this table only. Elements are sent in blocks, which are not
 * cut: a part of a tensor begins at a multiple of the block.
 */
#ifndef TTI_KERNELS_WIRE_FORMAT_H
#define TTI_KERNELS_WIRE_FORMAT_H

#include <stddef.h>
#include <tutti/collectives.h>

struct tti_wire_format {
    const char *name;
    tutti_dtype dtype;  /* an all_reduce of this dtype folds packed values; 0: none does, use tti_wire_fold */
    size_t block;       /* elements                                                                                 */
    size_t block_bytes; /* of a whole block. The last one of a tensor may have fewer elements, a byte less for each */
    void (*pack)(void *dst, const float *src, size_t count);
    void (*unpack)(float *dst, const void *src, size_t count);
    void (*fold)(void *dst, const void *const *src, size_t n, size_t count, tutti_reduce_op op, const double *scales);
};

/* NULL: TUTTI_WIRE_FULL, or a number that is no wire. */
const struct tti_wire_format *tti_wire_format(tutti_wire wire);

/* Of `count` elements from the beginning of a block on. */
static inline size_t tti_wire_bytes(const struct tti_wire_format *f, size_t count)
{
    const size_t rest = count % f->block;
    return count / f->block * f->block_bytes + (rest > 0 ? f->block_bytes - (f->block - rest) : 0);
}

/*
 * Rounds `count` elements, to nearest even. If the format has a dtype, the fold applies the factors of PREMUL_SUM, else
 * `scale` is applied here, before the rounding. The same bits with every instruction set and under any MXCSR/FPCR, as
 * in the two functions below.
 */
void tti_wire_pack(const struct tti_wire_format *f, void *dst, const float *src, size_t count, tutti_reduce_op op,
                   double scale);
void tti_wire_unpack(const struct tti_wire_format *f, float *dst, const void *src, size_t count);

/* As tti_fold, of packed values: in f32, rounded once. SUM, AVG or PREMUL_SUM. dst is none of the sources. */
void tti_wire_fold(const struct tti_wire_format *f, void *dst, const void *const *src, size_t n, size_t count,
                   tutti_reduce_op op, const double *scales);

#endif
