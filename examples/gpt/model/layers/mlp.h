/* SPDX-License-Identifier: BSD-3-Clause */
/* The middle of the gated MLP (SwiGLU, Shazeer 2020): silu(gate) * up, element by element, on this rank's columns. */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_MLP_H
#define EXAMPLES_GPT_MODEL_LAYERS_MLP_H

#include <stdint.h>

/* A row of `gate_up` has `width` numbers of the gate, then as many of up. */
void mlp_forward(const float *gate_up, float *y, int64_t rows, int64_t width);
void mlp_backward(const float *gate_up, const float *dy, float *d_gate_up, int64_t rows, int64_t width);

#endif
