/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sizes of a model: a GPT (Radford et al. 2019) whose blocks are Llama's (Touvron et al. 2023), with RMS norm, a
 * gated MLP, as many heads of keys as wanted, and no biases; positions are learned.
 */
#ifndef EXAMPLES_GPT_MODEL_SHAPE_H
#define EXAMPLES_GPT_MODEL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
    int32_t layers;
    int32_t hidden;   /* width of a token between the layers                            */
    int32_t heads;    /* of queries; a head is hidden / heads wide                      */
    int32_t kv_heads; /* of keys and values: heads / kv_heads heads of queries share one */
    int32_t mlp;      /* width inside the MLP                                           */
    int32_t vocabulary;
    int32_t context; /* positions: the longest sequence */
};

/* "tiny", "small" (trains in minutes), "gpt2", "llama-1b", "llama-8b"; the last two with few layers. False: unknown. */
bool shape_named(const char *name, struct shape *shape);

/* Whether the shape makes sense and `ranks` tensor-parallel ranks divide it. If not, `why` holds one sentence. */
bool shape_check(const struct shape *s, int32_t ranks, char *why, size_t capacity);

/* The number of parameters of the whole model. */
int64_t shape_parameters(const struct shape *s);

#endif
