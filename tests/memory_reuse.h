/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether memory has been freed although an engine still uses it. */
#ifndef TESTS_MEMORY_REUSE_H
#define TESTS_MEMORY_REUSE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Whether new memory of that size overlaps the old one: the allocator has it back. */
static inline bool is_reused(const void *memory, size_t bytes)
{
    enum { BLOCKS = 64 };
    const uintptr_t old = (uintptr_t)memory;
    void *blocks[BLOCKS];
    bool found = false;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(bytes);
        const uintptr_t begin = (uintptr_t)blocks[i];
        found = found || (begin < old + bytes && old < begin + bytes);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return found;
}

#endif
