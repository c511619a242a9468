/* SPDX-License-Identifier: BSD-3-Clause */
/* Matrix products by OpenBLAS, and the time in them: where a model spends its time. */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_PRODUCT_H
#define EXAMPLES_GPT_MODEL_LAYERS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* A matrix in memory, row-major: `stride` numbers from a row to the next. */
struct matrix {
    const float *data;
    int64_t stride;
    bool transposed; /* the product takes it so */
};

/* c = factor * a b + keep * c, where c is rows x columns and `inner` is the length of each sum. */
void product(float *c, int64_t stride, struct matrix a, struct matrix b, int64_t rows, int64_t columns, int64_t inner,
             float factor, float keep);

/* Seconds in product() so far. */
double product_seconds(void);

#endif
