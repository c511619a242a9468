/* SPDX-License-Identifier: BSD-3-Clause */
/* Averages of integers, for backends whose engines or libraries only sum. */
#ifndef TTI_BACKENDS_INTEGER_AVERAGE_H
#define TTI_BACKENDS_INTEGER_AVERAGE_H

#include <tutti/tensor.h>

/* Converts inputs to 64 bits. */
void tti_integer_widen(tutti_dtype dtype, int64_t *to, const void *from, size_t count);

/* Divides sums of 64 bits by `divisor`, truncates toward zero, and converts to the dtype. `to` may be `sums`. */
void tti_integer_divide(tutti_dtype dtype, void *to, const void *sums, size_t count, int32_t divisor);

#endif
