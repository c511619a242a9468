/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrix products in plain C. The inner loop runs along rows of b and c, so the compiler vectorises it as it stands. It
 * takes two rows of c and four rows of b at a time, so that each loaded number is used several times before it leaves
 * the registers.
 *
 * The order in which a sum is taken depends on the position in the matrix only, so equal inputs give equal bits.
 */
#include "matmul.h"

/* On x86-64 the compiler also makes a version for CPUs with AVX2, and the loader chooses. Not under ThreadSanitizer,
 * which is not ready yet when the loader asks. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FOR_EVERY_CPU __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define FOR_EVERY_CPU
#endif

/* The rest of the program need not care, these loops do: -O3 is what makes GCC vectorise them fully. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

FOR_EVERY_CPU void matmul_add(float *restrict c, const float *a, int64_t a_row, int64_t a_column,
                              const float *restrict b, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i += 2) {
        const int64_t pair = i + 1 < m; /* 0 for an odd last row */
        float *c0 = c + i * n;
        float *c1 = c + (i + 1) * n;
        int64_t p = 0;
        for (; pair && p + 4 <= k; p += 4) {
            const float *a0 = a + i * a_row + p * a_column;
            const float *a1 = a0 + a_row;
            const float x0 = a0[0], x1 = a0[a_column], x2 = a0[2 * a_column], x3 = a0[3 * a_column];
            const float y0 = a1[0], y1 = a1[a_column], y2 = a1[2 * a_column], y3 = a1[3 * a_column];
            const float *b0 = b + p * n;
            const float *b1 = b0 + n;
            const float *b2 = b1 + n;
            const float *b3 = b2 + n;
            for (int64_t j = 0; j < n; j++) {
                c0[j] += x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
                c1[j] += y0 * b0[j] + y1 * b1[j] + y2 * b2[j] + y3 * b3[j];
            }
        }
        for (; p < k; p++) {
            for (int64_t row = i; row <= i + pair; row++) {
                const float x = a[row * a_row + p * a_column];
                for (int64_t j = 0; j < n; j++) {
                    c[row * n + j] += x * b[p * n + j];
                }
            }
        }
    }
}

void transpose(float *restrict out, const float *restrict in, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            out[c * rows + r] = in[r * columns + c];
        }
    }
}
