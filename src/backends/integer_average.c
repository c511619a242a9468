/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The average of integers is exact: inputs are widened to 64 bits, summed, and divided once. A sum of up to 2^31 values
 * of 32 bits fits. Sums of 64-bit values wrap, as in the shared-memory engine. Cost: one pass over the data each way.
 */
#include "backends/integer_average.h"

#define EACH(target, expression)                                                                                       \
    for (size_t i = 0; i < count; i++) {                                                                               \
        ((target *)to)[i] = (target)(expression);                                                                      \
    }

void tti_integer_widen(tutti_dtype dtype, int64_t *to, const void *from, size_t count)
{
    switch (dtype) {
    case TUTTI_I8:
        EACH(int64_t, ((const int8_t *)from)[i]);
        break;
    case TUTTI_I16:
        EACH(int64_t, ((const int16_t *)from)[i]);
        break;
    case TUTTI_I32:
        EACH(int64_t, ((const int32_t *)from)[i]);
        break;
    case TUTTI_U8:
        EACH(int64_t, ((const uint8_t *)from)[i]);
        break;
    case TUTTI_U16:
        EACH(int64_t, ((const uint16_t *)from)[i]);
        break;
    case TUTTI_U32:
        EACH(int64_t, ((const uint32_t *)from)[i]);
        break;
    default: /* 64 bits */
        EACH(int64_t, ((const int64_t *)from)[i]);
        break;
    }
}

void tti_integer_divide(tutti_dtype dtype, void *to, const void *sums, size_t count, int32_t divisor)
{
    const int64_t *from = sums;
    switch (dtype) {
    case TUTTI_I8:
        EACH(int8_t, from[i] / divisor);
        break;
    case TUTTI_I16:
        EACH(int16_t, from[i] / divisor);
        break;
    case TUTTI_I32:
        EACH(int32_t, from[i] / divisor);
        break;
    case TUTTI_I64:
        EACH(int64_t, from[i] / divisor);
        break;
    case TUTTI_U8:
        EACH(uint8_t, from[i] / divisor);
        break;
    case TUTTI_U16:
        EACH(uint16_t, from[i] / divisor);
        break;
    case TUTTI_U32:
        EACH(uint32_t, from[i] / divisor);
        break;
    default: /* u64 */
        EACH(uint64_t, (uint64_t)from[i] / (uint64_t)divisor);
        break;
    }
}
