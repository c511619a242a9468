/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One token at a time: the forward pass that generation and the decode benchmark share. A cache holds the keys and
 * values of the tokens before, so a token costs one pass over all weights. With L layers and hidden width H it has
 * 2 L + 1 all_reduces of H floats, and an all_gather of one candidate of each rank.
 */
#ifndef EXAMPLES_GPT_INFERENCE_DECODER_H
#define EXAMPLES_GPT_INFERENCE_DECODER_H

#include "model/parameters.h"
#include "model/shape.h"
#include "parallel.h"
#include "weights.h"

/* This rank's part of a layer. */
struct decoder_layer {
    struct weights qkv;     /* a row for each output: queries, keys, values of this rank's heads */
    struct weights output;  /* a column for each number of this rank's heads                      */
    struct weights gate_up; /* rows: the gate of this rank's part of the MLP, then the part itself */
    struct weights down;    /* columns: this rank's part of the MLP                                */
    const float *norm1, *norm2;
    float *keys, *values; /* [context][width of this rank's heads of keys] */
};

struct decoder {
    struct shape shape;
    struct parallel *parallel;
    const struct parameters *parameters;
    struct weights token, head; /* this rank's rows of the vocabulary */
    struct decoder_layer *layers;
    float *x;      /* [hidden]: the residual stream                                                   */
    float *sum;    /* [hidden]: what the ranks add up; the caller may exchange it for memory of tutti_alloc */
    float *normed; /* [hidden] */
    float *wide;   /* queries, keys and values, or gate and up, of this rank */
    float *inner;  /* attention's output, or the MLP's inside, of this rank  */
    float *scores; /* [context] */
    float *logits; /* of this rank's rows of the vocabulary */
    double *calls; /* if not NULL, gets the seconds of each collective, decoder_calls of them a token */
    int32_t call;  /* the next one */
};

/* Makes a decoder of this rank's weights. Those of f32 are borrowed; with `bf16` the matrices are rounded copies. */
void decoder_open(struct decoder *d, const struct shape *shape, const struct parameters *parameters,
                  struct parallel *parallel, bool bf16);
void decoder_close(struct decoder *d);

/* Bytes of this rank's weights that a token reads. */
size_t decoder_bytes(const struct decoder *d);

/* Collectives of a token: decoder_step and decoder_choose. */
int32_t decoder_calls(const struct decoder *d);

/* Reads all weights of a token, and computes next to nothing: the bound of decoder_step by bytes. */
void decoder_read(const struct decoder *d);

/* Reads the token at `position`, after those before it. Leaves this rank's logits of the next one in d->logits. */
void decoder_step(struct decoder *d, int32_t token, int32_t position);

/* Draws the token that follows `position` from the softmax of logits / temperature; 0 takes the most probable one. All
 * ranks, and all splits of them, draw the same one. Only the first `choices` entries of the vocabulary are drawn. */
int32_t decoder_choose(struct decoder *d, int32_t choices, double temperature, uint64_t seed, int32_t position);

#endif
