/* SPDX-License-Identifier: BSD-3-Clause */
/* silu(x) = x s(x), with s(x) = 1 / (1 + exp(-x)); its slope is s (1 + x (1 - s)). */
#include "mlp.h"

#include <math.h>

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

void mlp_forward(const float *gate_up, float *y, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, gate_up += 2 * width, y += width) {
        for (int64_t i = 0; i < width; i++) {
            y[i] = gate_up[i] * sigmoid(gate_up[i]) * gate_up[width + i];
        }
    }
}

void mlp_backward(const float *gate_up, const float *dy, float *d_gate_up, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, gate_up += 2 * width, d_gate_up += 2 * width, dy += width) {
        for (int64_t i = 0; i < width; i++) {
            const float x = gate_up[i];
            const float s = sigmoid(x);
            d_gate_up[i] = dy[i] * gate_up[width + i] * s * (1 + x * (1 - s));
            d_gate_up[width + i] = dy[i] * x * s;
        }
    }
}
