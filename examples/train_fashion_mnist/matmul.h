/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLES_TRAIN_FASHION_MNIST_MATMUL_H
#define EXAMPLES_TRAIN_FASHION_MNIST_MATMUL_H

#include <stdint.h>

/* c += a * b, where c is m x n and b is k x n, both row-major. Element (i, p) of a is a[i * a_row + p * a_column]: with
 * (a_row, a_column) = (k, 1) a is row-major, with (1, m) it is read as its transpose. */
void matmul_add(float *c, const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t m, int64_t n,
                int64_t k);

/* out (columns x rows) = the transpose of in (rows x columns). */
void transpose(float *out, const float *in, int64_t rows, int64_t columns);

#endif
