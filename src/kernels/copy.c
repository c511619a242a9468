/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcpy without its worst case. From a few KiB on the C library uses `rep movsb` where the processor says that it is
 * fast. Some processors (AMD Zen 3 and 4) then copy byte by byte, 15 times slower, when the destination lies a few bytes
 * ahead of the source within the page. Offsets of tensors meet that often enough: staging memory begins at a page, and
 * so do large tensors, but not their parts. Pieces below the library's threshold go through registers.
 */
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

enum { PAGE = 4096, NEAR = 64, PIECE = 1024 };

void tti_copy_cached(void *dst, const void *src, size_t n)
{
    const size_t ahead = ((uintptr_t)dst - (uintptr_t)src) % PAGE;
    size_t done = 0;
    if (ahead > 0 && ahead < NEAR) {
        for (; n - done > PIECE; done += PIECE) {
            memcpy((char *)dst + done, (const char *)src + done, PIECE);
        }
    }
    memcpy((char *)dst + done, (const char *)src + done, n - done);
}
