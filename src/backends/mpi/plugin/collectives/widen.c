/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts the inputs of reductions to a wider type for MPI's sums, and the sums back: integers in 64 bits, narrow
 * floats in f32. The way there also multiplies narrow floats by fold->scale: the factor of PREMUL_SUM, 1 for AVG. The
 * way back divides by fold->size: the number of ranks for AVG, else 1. Scalar loops, one pass each way.
 */
#include "backends/mpi/plugin/collectives/widen.h"

#include "backends/integer_average.h"
#include "kernels/isa/convert.h"

static bool sums_are_float(const struct tti_mpi_fold *fold)
{
    return fold->wide == sizeof(float);
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
    case TUTTI_F8_E5M2:
    default: /* no other dtype is narrow */
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
    case TUTTI_F8_E5M2:
    default: /* no other dtype is narrow */
        ((uint8_t *)to)[i] = f8_e5m2_of_f32(value);
        break;
    }
}

void tti_mpi_widen_and_scale(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count)
{
    const float factor = (float)fold->scale;
    if (!sums_are_float(fold)) {
        tti_integer_widen(fold->dtype, to, from, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ((float *)to)[i] = load_float(fold->dtype, from, i) * factor;
    }
}

void tti_mpi_average_and_narrow(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count)
{
    if (!sums_are_float(fold)) {
        tti_integer_divide(fold->dtype, to, from, count, fold->size);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        store_float(fold->dtype, to, i, ((const float *)from)[i] / (float)fold->size);
    }
}
