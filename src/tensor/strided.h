/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying between strided tensors and compact memory, and the memory that a tensor's elements use. */
#ifndef TTI_TENSOR_STRIDED_H
#define TTI_TENSOR_STRIDED_H

#include <stdbool.h>
#include <tutti/tensor.h>

/* The first element's address: data + byte_offset. */
static inline void *tti_tensor_data(const DLTensor *t)
{
    return (char *)t->data + t->byte_offset;
}

/* Copies the elements in row-major order into / from compact memory. The tensor is valid. */
void tti_tensor_pack(void *dst, const DLTensor *src);
void tti_tensor_unpack(const DLTensor *dst, const void *src);

/* Whether two different indices may reach the same element (a stride of 0, colliding rows, ...). Exact for up to 4
 * dimensions; may be true for unusual layouts that do not overlap. */
bool tti_tensor_self_overlaps(const DLTensor *t);

/* The byte range [*begin, *end) that the elements span; empty for a tensor without elements. False on overflow. */
bool tti_tensor_span(const DLTensor *t, uintptr_t *begin, uintptr_t *end);

#endif
