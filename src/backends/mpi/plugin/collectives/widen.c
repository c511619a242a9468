/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts the inputs of reductions to a wider type for MPI's sums, and the sums back: integers in 64 bits, narrow
 * floats in f32. Scalar loops, one pass each way.
 */
#include "backends/mpi/plugin/collectives/widen.h"

#include "backends/integer_average.h"

/* The build of the kernels defines this for the header. */
#define TTI_INLINE static inline __attribute__((always_inline, unused))
#include "kernels/isa/convert.h"

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
    if (fold->wide != sizeof(float)) {
        tti_integer_widen(fold->dtype, to, from, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ((float *)to)[i] = load_float(fold->dtype, from, i) * factor;
    }
}

void tti_mpi_narrow(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count)
{
    if (fold->wide != sizeof(float)) {
        tti_integer_divide(fold->dtype, to, from, count, fold->size);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        store_float(fold->dtype, to, i, ((const float *)from)[i] / (float)fold->size);
    }
}
