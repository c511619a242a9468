/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/tensor.h - element types by name, and helpers for DLPack's DLTensor.
 *
 * A tensor's first element is at (char *)data + byte_offset, aligned to the element's size. strides == NULL means
 * compact and row-major. Other strides (in elements) are packed through scratch memory, which is slower:
 *  - An input may have any strides: negative (reversed), 0 (expanded), overlapping windows.
 *  - An output may have negative strides, but no two of its indices may reach the same element.
 * The strides of a tensor without elements are ignored. At most TUTTI_MAX_NDIM dimensions.
 */
#ifndef TUTTI_TENSOR_H
#define TUTTI_TENSOR_H

#include <tutti/dlpack.h>
#include <tutti/status.h>

TUTTI_BEGIN_DECLS

#define TUTTI_MAX_NDIM 16

/** Element types: X(NAME, value, name, bytes, DLPack type code). FP8 follows OCP 8-bit floating point 1.0. */
#define TUTTI_DTYPE_LIST(X)                                                                                            \
    X(F64, 1, "f64", 8, 2)                                                                                             \
    X(F32, 2, "f32", 4, 2)                                                                                             \
    X(F16, 3, "f16", 2, 2)                                                                                             \
    X(BF16, 4, "bf16", 2, 4)                                                                                           \
    X(F8_E4M3, 5, "f8_e4m3", 1, 10)                                                                                    \
    X(F8_E5M2, 6, "f8_e5m2", 1, 12)                                                                                    \
    X(I8, 7, "i8", 1, 0)                                                                                               \
    X(I16, 8, "i16", 2, 0)                                                                                             \
    X(I32, 9, "i32", 4, 0)                                                                                             \
    X(I64, 10, "i64", 8, 0)                                                                                            \
    X(U8, 11, "u8", 1, 1)                                                                                              \
    X(U16, 12, "u16", 2, 1)                                                                                            \
    X(U32, 13, "u32", 4, 1)                                                                                            \
    X(U64, 14, "u64", 8, 1)                                                                                            \
    X(BOOL, 15, "bool", 1, 6)

typedef int32_t tutti_dtype;
enum {
#define TUTTI_DTYPE_ENUM(name, value, text, bytes, code) TUTTI_##name = value,
    TUTTI_DTYPE_LIST(TUTTI_DTYPE_ENUM)
#undef TUTTI_DTYPE_ENUM
        TUTTI_DTYPE_COUNT = 16 /* one past the last value */
};

/** Bytes of one element, 0 for a value outside the list. */
TUTTI_API size_t tutti_dtype_size(tutti_dtype dtype);

/** "f32", "bf16", ...; "unknown" for a value outside the list. Static storage. */
TUTTI_API const char *tutti_dtype_name(tutti_dtype dtype);

/**
 * Finds a dtype by the name of tutti_dtype_name, in any case, or by a name of torch or NumPy ("float32", "half",
 * "int8", ...). NOT_FOUND otherwise, and *dtype is unchanged.
 */
TUTTI_API tutti_status tutti_dtype_parse(const char *name, tutti_dtype *dtype);

/** The DLPack type of a dtype; {0, 0, 0} for a value outside the list. */
TUTTI_API DLDataType tutti_dtype_to_dlpack(tutti_dtype dtype);

/** The dtype of a DLPack type; 0 if Tutti does not support it (complex, several lanes, ...). */
TUTTI_API tutti_dtype tutti_dtype_from_dlpack(DLDataType type);

/**
 * A compact one-dimensional CPU tensor over memory of the caller. `count` is the shape and borrowed: it must live as
 * long as the tensor is used.
 *
 *     int64_t n = 1000;
 *     DLTensor grad = tutti_tensor_1d(buffer, &n, TUTTI_F32);
 */
TUTTI_API DLTensor tutti_tensor_1d(void *data, const int64_t *count, tutti_dtype dtype);

/** The same for `ndim` dimensions, row-major; `shape` has ndim entries and is borrowed. */
TUTTI_API DLTensor tutti_tensor_nd(void *data, int32_t ndim, const int64_t *shape, tutti_dtype dtype);

/** Elements of a tensor; -1 if the shape is NULL with ndim > 0, has a negative dimension, or the product overflows. */
TUTTI_API int64_t tutti_tensor_count(const DLTensor *tensor);

/** 1 if the elements are adjacent in row-major order (strides NULL or equal to the compact ones), else 0. */
TUTTI_API int32_t tutti_tensor_is_compact(const DLTensor *tensor);

TUTTI_END_DECLS

#endif
