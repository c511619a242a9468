/* SPDX-License-Identifier: BSD-3-Clause */
/* RMS norm (Zhang & Sennrich 2019): y = gain * x / rms(x), token by token. It needs no communication. */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_NORM_H
#define EXAMPLES_GPT_MODEL_LAYERS_NORM_H

#include <stdint.h>

/* `scale` keeps 1 / rms(x) of each row for the backward pass. */
void norm_forward(const float *x, const float *gain, float *y, float *scale, int64_t rows, int64_t width);

/* Sets the gradient of the gain to the sum over these rows, and adds to dx. */
void norm_backward(const float *x, const float *gain, const float *scale, const float *dy, float *gain_gradient,
                   float *dx, int64_t rows, int64_t width);

#endif
