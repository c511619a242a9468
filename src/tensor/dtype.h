/* SPDX-License-Identifier: BSD-3-Clause */
/* Inline lookups of element types, for every call. */
#ifndef TTI_TENSOR_DTYPE_H
#define TTI_TENSOR_DTYPE_H

#include <tutti/tensor.h>

enum { TTI_DLPACK_CODES = 13 }; /* one past the highest code in TUTTI_DTYPE_LIST */

/* The dtype by DLPack's code and the size in bytes; 0 = none. */
extern const uint8_t tti_dtype_by_code[TTI_DLPACK_CODES][9];
extern const uint8_t tti_dtype_bytes[TUTTI_DTYPE_COUNT];

/* tutti_dtype_size for a valid dtype. */
static inline size_t tti_dtype_size(tutti_dtype dtype)
{
    return tti_dtype_bytes[dtype];
}

/* The logarithm of the size, which is a power of two. */
static inline unsigned tti_dtype_shift(tutti_dtype dtype)
{
    return (unsigned)__builtin_ctz(tti_dtype_bytes[dtype]);
}

/* tutti_dtype_from_dlpack */
static inline tutti_dtype tti_dtype_of(DLDataType type)
{
    const unsigned bytes = type.bits / 8u;
    return type.lanes == 1 && type.bits % 8u == 0 && bytes <= 8 && type.code < TTI_DLPACK_CODES
               ? tti_dtype_by_code[type.code][bytes]
               : 0;
}

#endif
