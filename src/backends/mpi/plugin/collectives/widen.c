/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts the inputs of reductions to a wider type for MPI's sums, and the sums back: integers in 64 bits, narrow floats in
 * f32. Scalar loops, one pass each way.
 */
#include "backends/mpi/plugin/collectives/widen.h"

#include "tensor/dtype.h"

/* The build of the kernels defines this for the header. */
#define TTI_INLINE static inline __attribute__((always_inline, unused))
#include "kernels/isa/convert.h"

static int64_t load_integer(tutti_dtype dtype, const void *from, size_t i)
{
    switch (dtype) {
    case TUTTI_I8:
        return ((const int8_t *)from)[i];
    case TUTTI_I16:
        return ((const int16_t *)from)[i];
    case TUTTI_I32:
        return ((const int32_t *)from)[i];
    case TUTTI_U8:
        return ((const uint8_t *)from)[i];
    case TUTTI_U16:
        return ((const uint16_t *)from)[i];
    case TUTTI_U32:
        return ((const uint32_t *)from)[i];
    default:
        return ((const int64_t *)from)[i];
    }
}

static void store_integer(tutti_dtype dtype, void *to, size_t i, int64_t value)
{
    switch (tti_dtype_size(dtype)) {
    case 1:
        ((uint8_t *)to)[i] = (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)to)[i] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)to)[i] = (uint32_t)value;
        break;
    default:
        ((int64_t *)to)[i] = value;
        break;
    }
}

static float load_float(tutti_dtype dtype, const void *from, size_t i)
{
    switch (dtype) {
    case TUTTI_F16:
        return f32_of_f16(((const uint16_t *)from)[i]);
    case TUTTI_BF16:
        return f32_of_bf16(((const uint16_t *)from)[i]);
    case TUTTI_F8_E4M3:
        return f32_of_f8_e4m3(((const uint8_t *)from)[i]);
    default:
        return f32_of_f8_e5m2(((const uint8_t *)from)[i]);
    }
}

static void store_float(tutti_dtype dtype, void *to, size_t i, float value)
{
    switch (dtype) {
    case TUTTI_F16:
        ((uint16_t *)to)[i] = f16_of_f32(value);
        break;
    case TUTTI_BF16:
        ((uint16_t *)to)[i] = bf16_of_f32(value);
        break;
    case TUTTI_F8_E4M3:
        ((uint8_t *)to)[i] = f8_e4m3_of_f32(value);
        break;
    default:
        ((uint8_t *)to)[i] = f8_e5m2_of_f32(value);
        break;
    }
}

void tti_mpi_widen(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count)
{
    const float factor = (float)fold->scale;
    for (size_t i = 0; i < count; i++) {
        if (fold->wide == sizeof(float)) {
            ((float *)to)[i] = load_float(fold->dtype, from, i) * factor;
        } else {
            ((int64_t *)to)[i] = load_integer(fold->dtype, from, i);
        }
    }
}

void tti_mpi_narrow(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count)
{
    const bool has_no_sign = fold->dtype >= TUTTI_U8;
    for (size_t i = 0; i < count; i++) {
        if (fold->wide == sizeof(float)) {
            store_float(fold->dtype, to, i, ((const float *)from)[i] / (float)fold->size);
        } else {
            const int64_t sum = ((const int64_t *)from)[i];
            store_integer(fold->dtype, to, i,
                          has_no_sign ? (int64_t)((uint64_t)sum / (uint64_t)fold->size) : sum / fold->size);
        }
    }
}
