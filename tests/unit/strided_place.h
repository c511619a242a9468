/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of strided tensors: where an element lies, found by division, and random layouts. */
#ifndef TESTS_UNIT_STRIDED_PLACE_H
#define TESTS_UNIT_STRIDED_PLACE_H

#include <stdint.h>
#include <tutti/dlpack.h>

static inline uint32_t random_below(uint32_t *state, uint32_t limit)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % limit;
}

/* Byte offset of element number `flat` from the first one. */
static inline int64_t place_of(const DLTensor *t, int64_t flat)
{
    int64_t place = 0;
    int64_t compact = 1;
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        place += flat / compact % t->shape[i] * (t->strides ? t->strides[i] : compact);
        compact *= t->shape[i];
    }
    return place * (t->dtype.bits / 8);
}

#endif
