/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linear layers y = x W', split over the tensor-parallel ranks (Shoeybi et al. 2019). A column-parallel one computes
 * some of the outputs on each rank, and begins a tensor-parallel region. A row-parallel one has some of the inputs on
 * each rank, computes a part of every sum, and ends the region. One after the other, they need no communication between
 * them.
 */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_LINEAR_H
#define EXAMPLES_GPT_MODEL_LAYERS_LINEAR_H

#include "parallel.h"

/* This rank's part of a layer: weights and their gradients are outputs x inputs. */
struct linear {
    const float *weight;
    float *gradient;
    int64_t outputs, inputs;
};

/* x and y are rows x inputs and rows x outputs; of x only tensor_own need be valid before. */
void column_parallel_forward(struct parallel *p, const struct linear *l, float *x, float *y, int64_t rows);

/* Sets the gradient of the weights, and tensor_own of dx. x is as the forward pass has left it. */
void column_parallel_backward(struct parallel *p, const struct linear *l, const float *x, const float *dy, float *dx,
                              int64_t rows);

/* Of y only tensor_own is valid afterwards. */
void row_parallel_forward(struct parallel *p, const struct linear *l, const float *x, float *y, int64_t rows);

/* Of dy only tensor_own need be valid before; all of it is afterwards. */
void row_parallel_backward(struct parallel *p, const struct linear *l, const float *x, float *dy, float *dx,
                           int64_t rows);

#endif
