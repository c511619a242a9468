/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With r = 1 / rms(x) and g = gain * dy:  dx = r (g - x r^2 mean(g x)).
 */
#include "norm.h"

#include <math.h>
#include <string.h>

#define EPSILON 1e-5

void norm_forward(const float *x, const float *gain, float *y, float *scale, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, x += width, y += width) {
        double squares = 0;
        for (int64_t i = 0; i < width; i++) {
            squares += (double)x[i] * x[i];
        }
        scale[r] = (float)(1 / sqrt(squares / (double)width + EPSILON));
        for (int64_t i = 0; i < width; i++) {
            y[i] = gain[i] * x[i] * scale[r];
        }
    }
}

void norm_backward(const float *x, const float *gain, const float *scale, const float *dy, float *gain_gradient,
                   float *dx, int64_t rows, int64_t width)
{
    memset(gain_gradient, 0, (size_t)width * sizeof(float));
    for (int64_t r = 0; r < rows; r++, x += width, dy += width, dx += width) {
        double along = 0;
        for (int64_t i = 0; i < width; i++) {
            along += (double)(gain[i] * dy[i]) * x[i];
            gain_gradient[i] += dy[i] * x[i] * scale[r];
        }
        const float back = (float)(along / (double)width) * scale[r] * scale[r];
        for (int64_t i = 0; i < width; i++) {
            dx[i] += scale[r] * (gain[i] * dy[i] - x[i] * back);
        }
    }
}
