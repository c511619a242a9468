/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One block: x += attention(norm(x)), then x += MLP(norm(x)). Attention and MLP are tensor-parallel regions, each
 * between a column-parallel and a row-parallel layer; norms and sums lie between the regions.
 */
#ifndef EXAMPLES_GPT_MODEL_BLOCK_H
#define EXAMPLES_GPT_MODEL_BLOCK_H

#include "layers/attention.h"
#include "parallel.h"
#include "parameters.h"

/* What all blocks of a model share: sizes, and room for results that are needed only for a moment. */
struct block_common {
    struct parallel *parallel;
    struct attention attention;
    int64_t rows; /* tokens; between the regions a rank has own_rows of them */
    int64_t own_rows;
    int64_t hidden;
    float *sum;     /* rows x hidden          */
    float *wide;    /* rows x the widest row inside a region */
    float *narrow;  /* rows x the widest input of a row-parallel layer */
    float *scratch; /* context x context      */
};

/* A block and what its forward pass keeps for the backward pass. */
struct block {
    struct block_parameters *parameters;
    float *input, *middle;    /* x before attention and before the MLP: own_rows x hidden */
    float *scale1, *scale2;   /* of the norms: own_rows       */
    float *normed1, *normed2; /* inputs of the regions: rows x hidden */
    float *projected;         /* queries, keys, values        */
    float *weights;           /* the softmax of attention     */
    float *mixed;             /* output of attention          */
    float *gate_up;
    float *activated;
};

void block_common_create(struct block_common *c, const struct shape *s, struct parallel *p, int64_t sequences);
void block_common_free(struct block_common *c);
void block_create(struct block *b, const struct block_common *c, struct block_parameters *parameters);
void block_free(struct block *b);

/* x, rows x hidden, of which tensor_own is valid before and after. */
void block_forward(struct block *b, const struct block_common *c, float *x);

/* Sets the gradients of the block's parameters. dx, as x: the derivative by the output becomes that by the input. */
void block_backward(struct block *b, const struct block_common *c, float *dx);

#endif
