/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcpy without its worst case. From a few KiB on the C library uses `rep movsb` where the processor says that it is
 * fast. Some processors (AMD Zen 3 and 4) then copy 15 times slower when the destination lies less than 16 bytes ahead
 * of the source within the page. Parts of tensors meet that: staging memory begins at a page, and so do large tensors,
 * but their parts begin anywhere. Pieces below the library's threshold go through registers; from the last one to the
 * first, for in the other direction each load would wait for the store before, whose address looks the same within the
 * page.
 */
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

enum { PAGE = 4096, NEAR = 16, CHUNK = 1024 };

void tti_copy_cached(void *dst, const void *src, size_t n)
{
    const size_t ahead = ((uintptr_t)dst - (uintptr_t)src) % PAGE;
    size_t left = n;
    if (ahead > 0 && ahead < NEAR) {
        size_t chunk = CHUNK;
        /* Emits nothing, but hides the length: of a constant one the compiler makes a string instruction itself. */
        __asm__ volatile("" : "+r"(chunk));
        while (left > chunk) {
            left -= chunk;
            memcpy((char *)dst + left, (const char *)src + left, chunk);
        }
    }
    memcpy(dst, src, left);
}
