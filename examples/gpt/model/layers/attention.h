/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Causal self-attention of this rank's heads (Vaswani et al. 2017). Heads do not depend on one another, so a rank that
 * has all matrices of its heads needs no communication inside.
 */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_ATTENTION_H
#define EXAMPLES_GPT_MODEL_LAYERS_ATTENTION_H

#include <stdint.h>

/* A row of `projected` is a token: its queries, heads x width, then its keys and its values, kv_heads x width each. */
struct attention {
    int64_t sequences, context; /* rows = sequences x context, one sequence behind the other */
    int64_t heads, kv_heads;    /* of this rank */
    int64_t width;              /* of a head    */
};

/* `mixed` is rows x (heads x width). `weights` keeps the softmax: sequences x heads x context x context. */
void attention_forward(const struct attention *a, const float *projected, float *weights, float *mixed);

/* Sets d_projected. `scratch` has room for context x context numbers. */
void attention_backward(const struct attention *a, const float *projected, const float *weights, const float *d_mixed,
                        float *d_projected, float *scratch);

#endif
