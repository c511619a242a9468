/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds of formats whose conversion costs more than the fold. A source is widened into a tile of f32 in the first-level
 * cache, the kernels of f32 fold tiles, and the result is narrowed. So a format needs two loops, not one for each
 * reduce op and number of sources.
 */
#ifndef TTI_KERNELS_ISA_STAGED_H
#define TTI_KERNELS_ISA_STAGED_H

#include "kernels/isa/convert.h"

enum { STAGED_TILE = 512 }; /* elements */

struct staged_format {
    size_t tile_bytes;
    void (*widen)(float *tile, const void *src, size_t count);
    void (*narrow)(void *dst, const float *tile, size_t count);
};

__attribute__((noinline, unused)) static void staged_run(void *dst, const void *const *src, size_t n, size_t count,
                                                         tutti_reduce_op op, const double *scales,
                                                         const struct staged_format *format)
{
    float total[STAGED_TILE];
    float next[STAGED_TILE];
    const void *const both[2] = {total, next};
    tti_fold_function *const *f32 = TTI_ISA_NAME(tti_fold_f32);
    tti_fold_function *const combine = f32[op == TUTTI_AVG || op == TUTTI_PREMUL_SUM ? TUTTI_SUM : op];

    for (size_t at = 0; count > 0; at += format->tile_bytes) {
        const size_t part = count < STAGED_TILE ? count : STAGED_TILE;
        size_t k = 0;
        do { /* there is at least one source */
            float *const tile = k == 0 ? total : next;
            format->widen(tile, (const char *)src[k] + at, part);
            if (op == TUTTI_PREMUL_SUM) {
                f32[op](tile, k == 0 ? &both[0] : &both[1], 1, part, &scales[k]);
            }
            if (k > 0) {
                combine(total, both, 2, part, NULL);
            }
        } while (++k < n);
        if (op == TUTTI_AVG) {
            for (size_t i = 0; i < part; i++) {
                total[i] /= (float)n;
            }
        }
        format->narrow((char *)dst + at, total, part);
        count -= part;
    }
}

#endif
