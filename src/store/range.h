/* SPDX-License-Identifier: BSD-3-Clause */
/* Several keys of a store that are read together. Types only: see tti_store_get_range. */
#ifndef TTI_STORE_RANGE_H
#define TTI_STORE_RANGE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The keys STEM/first, STEM/(first + 1) and so on, as many as `count`, in few requests instead of one for each. Values
 * go to `values`, each at most `stride` bytes, and their full lengths to `lengths`; or, if `fds` is not NULL,
 * descriptors go to `fds`. `got` keys were read, from `first` on.
 */
struct tti_store_range {
    const char *stem;
    uint32_t first;
    uint32_t count;
    unsigned char *values;
    size_t stride;
    size_t *lengths;
    int *fds;
    uint32_t got; /* out */
};

#endif
