/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cblas_sgemm takes any leading dimension, so a head of attention is a matrix inside the rows of all heads, without a
 * copy. With the serial OpenBLAS a rank computes on one thread; with another one, OMP_NUM_THREADS of `tutti run`
 * counts.
 */
#include "product.h"

#include "common/common.h"

#include <cblas.h>

static double seconds;

void product(float *c, int64_t stride, struct matrix a, struct matrix b, int64_t rows, int64_t columns, int64_t inner,
             float factor, float keep)
{
    const double begin = seconds_now();
    cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans, b.transposed ? CblasTrans : CblasNoTrans,
                (blasint)rows, (blasint)columns, (blasint)inner, factor, a.data, (blasint)a.stride, b.data,
                (blasint)b.stride, keep, c, (blasint)stride);
    seconds += seconds_now() - begin;
}

double product_seconds(void)
{
    return seconds;
}
