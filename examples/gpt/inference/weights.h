/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Weights of f32 or bf16, and their product with one vector: what decoding does with each weight, once a token. The
 * time is that of reading the weights; bf16 halves it.
 */
#ifndef EXAMPLES_GPT_INFERENCE_WEIGHTS_H
#define EXAMPLES_GPT_INFERENCE_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The matrix of a linear layer, row-major: a row for each output. */
struct weights {
    int64_t rows, columns;
    bool bf16;
    void *values;
};

/* A matrix of floats as weights: the same memory, or with `bf16` a rounded copy. */
struct weights weights_open(float *values, int64_t rows, int64_t columns, bool bf16);
void weights_close(struct weights *w);

size_t weights_bytes(const struct weights *w);

/* Reads one row as floats. */
void weights_row(const struct weights *w, int64_t row, float *values);

/* Reads all weights, and computes next to nothing. */
void weights_read(const struct weights *w);

/* y = weights x */
void weights_times(const struct weights *w, const float *x, float *y);

#endif
