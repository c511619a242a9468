/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strided tensors. A layout is first reduced to the fewest dimensions: those of length 1 are dropped, adjacent ones
 * merged. A counter walks through the rest. The innermost dimension is a row, copied at once if its elements are
 * adjacent. Cost: one copy for each row of a slice of a matrix.
 */
#include "tensor/strided.h"

#include <string.h>

#include "kernels/kernels.h"

struct layout {
    int32_t ndim;
    int64_t shape[TUTTI_MAX_NDIM];
    int64_t stride[TUTTI_MAX_NDIM]; /* elements */
};

/* All strides, also of a tensor without strides. */
static struct layout layout_of(const DLTensor *t)
{
    struct layout layout = {.ndim = t->ndim};
    int64_t compact = 1;
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        layout.shape[i] = t->shape[i];
        layout.stride[i] = t->strides ? t->strides[i] : compact;
        if (!t->strides && i > 0) {
            compact *= t->shape[i];
        }
    }
    return layout;
}

/* The same elements in the same order with the fewest dimensions. The tensor is not empty. */
static struct layout merged(const struct layout *from)
{
    struct layout to = {.ndim = 0};
    for (int32_t i = 0; i < from->ndim; i++) {
        if (from->shape[i] == 1) {
            continue;
        }
        int64_t reach;
        const int32_t last = to.ndim - 1;
        const bool continues =
            last >= 0 && !__builtin_mul_overflow(from->shape[i], from->stride[i], &reach) && to.stride[last] == reach;
        if (continues) {
            to.shape[last] *= from->shape[i];
            to.stride[last] = from->stride[i];
        } else {
            to.shape[to.ndim] = from->shape[i];
            to.stride[to.ndim] = from->stride[i];
            to.ndim++;
        }
    }
    return to;
}

/* Copies `count` elements; strides in bytes. With a constant `size` each memcpy is one instruction. */
static inline __attribute__((always_inline)) void copy_elements(char *dst, int64_t dst_stride, const char *src,
                                                                int64_t src_stride, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count; i++) {
        memcpy(dst + i * dst_stride, src + i * src_stride, size);
    }
}

static void copy_row(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t count, size_t size)
{
    if (dst_stride == (int64_t)size && src_stride == (int64_t)size) {
        tti_copy_cached(dst, src, (size_t)count * size);
        return;
    }
    switch (size) {
    case 1:
        copy_elements(dst, dst_stride, src, src_stride, count, 1);
        break;
    case 2:
        copy_elements(dst, dst_stride, src, src_stride, count, 2);
        break;
    case 4:
        copy_elements(dst, dst_stride, src, src_stride, count, 4);
        break;
    case 8:
        copy_elements(dst, dst_stride, src, src_stride, count, 8);
        break;
    default:
        copy_elements(dst, dst_stride, src, src_stride, count, size);
    }
}

/* Copies row by row, into compact memory if `pack`, else from it. */
static void walk(const DLTensor *t, char *compact, bool pack)
{
    if (tutti_tensor_count(t) <= 0) {
        return;
    }
    const struct layout all = layout_of(t);
    const struct layout layout = merged(&all);
    const size_t size = (size_t)t->dtype.bits * t->dtype.lanes / 8;
    char *strided = tti_tensor_data(t);
    const int32_t inner = layout.ndim - 1;
    const int64_t row = inner < 0 ? 1 : layout.shape[inner];
    const int64_t row_stride = inner < 0 ? (int64_t)size : layout.stride[inner] * (int64_t)size;
    int64_t index[TUTTI_MAX_NDIM] = {0};

    for (;;) {
        if (pack) {
            copy_row(compact, (int64_t)size, strided, row_stride, row, size);
        } else {
            copy_row(strided, row_stride, compact, (int64_t)size, row, size);
        }
        compact += row * (int64_t)size;
        int32_t d = inner - 1;
        while (d >= 0 && index[d] == layout.shape[d] - 1) {
            strided -= index[d] * layout.stride[d] * (int64_t)size;
            index[d] = 0;
            d--;
        }
        if (d < 0) {
            return;
        }
        index[d]++;
        strided += layout.stride[d] * (int64_t)size;
    }
}

void tti_tensor_pack(void *dst, const DLTensor *src)
{
    walk(src, dst, true);
}

void tti_tensor_unpack(const DLTensor *dst, const void *src)
{
    walk(dst, (char *)src, false); /* only read: pack is false */
}

bool tti_tensor_span(const DLTensor *t, uintptr_t *begin, uintptr_t *end)
{
    const int64_t count = tutti_tensor_count(t);
    uintptr_t first;
    if (count < 0 || t->ndim > TUTTI_MAX_NDIM ||
        __builtin_add_overflow((uintptr_t)t->data, (uintptr_t)t->byte_offset, &first)) {
        return false;
    }
    if (count == 0) {
        *begin = first;
        *end = first;
        return true;
    }
    /* The extent below and above the first element, in elements. */
    const struct layout layout = layout_of(t);
    int64_t low = 0;
    int64_t high = 0;
    for (int32_t i = 0; i < layout.ndim; i++) {
        int64_t reach;
        int64_t *side = layout.stride[i] < 0 ? &low : &high;
        if (__builtin_mul_overflow(layout.shape[i] - 1, layout.stride[i], &reach) ||
            __builtin_add_overflow(*side, reach, side)) {
            return false;
        }
    }
    const int64_t size = (int64_t)t->dtype.bits * t->dtype.lanes / 8;
    uintptr_t from;
    uintptr_t to;
    if (__builtin_add_overflow(high, 1, &high) || __builtin_mul_overflow(low, size, &low) ||
        __builtin_mul_overflow(high, size, &high) || __builtin_add_overflow(first, low, &from) ||
        __builtin_add_overflow(first, high, &to)) {
        return false;
    }
    *begin = from;
    *end = to;
    return true;
}
