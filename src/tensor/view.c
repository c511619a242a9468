/* SPDX-License-Identifier: BSD-3-Clause */
/* Describing memory as a tensor; its number of elements, and whether it is compact. */
#include <tutti/tensor.h>

DLTensor tutti_tensor_nd(void *data, int32_t ndim, const int64_t *shape, tutti_dtype dtype)
{
    return (DLTensor){
        .data = data,
        .device = {.device_type = kDLCPU, .device_id = 0},
        .ndim = ndim,
        .dtype = tutti_dtype_to_dlpack(dtype),
        .shape = (int64_t *)shape, /* DLPack has no constant shape; Tutti does not write it */
        .strides = NULL,
        .byte_offset = 0,
    };
}

DLTensor tutti_tensor_1d(void *data, const int64_t *count, tutti_dtype dtype)
{
    return tutti_tensor_nd(data, 1, count, dtype);
}

int64_t tutti_tensor_count(const DLTensor *tensor)
{
    if (!tensor || tensor->ndim < 0 || (tensor->ndim > 0 && !tensor->shape)) {
        return -1;
    }
    int64_t count = 1;
    int overflow = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0) {
            return -1;
        }
    }
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            return 0; /* for any size of the others */
        }
        overflow |= __builtin_mul_overflow(count, tensor->shape[i], &count);
    }
    return overflow ? -1 : count;
}

int32_t tutti_tensor_is_compact(const DLTensor *tensor)
{
    const int64_t count = tutti_tensor_count(tensor);
    if (count < 0) {
        return 0;
    }
    if (count == 0 || !tensor->strides) {
        return 1;
    }
    int64_t stride = 1;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        /* The stride of a dimension of length 1 is never used. */
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride) {
            return 0;
        }
        stride *= tensor->shape[i];
    }
    return 1;
}
