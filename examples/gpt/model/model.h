/* SPDX-License-Identifier: BSD-3-Clause */
/* The model: embedding, blocks, norm, head and loss, forward and backward, as one rank computes its part of it. */
#ifndef EXAMPLES_GPT_MODEL_MODEL_H
#define EXAMPLES_GPT_MODEL_MODEL_H

#include "block.h"
#include "parallel.h"
#include "parameters.h"

struct model {
    struct shape shape;
    struct parallel *parallel;
    struct parameters parameters;
    int64_t rows; /* tokens of a step of this replica */
    struct block_common common;
    struct block *blocks;
    float *x;      /* rows x hidden, between the blocks: values, then derivatives */
    float *last;   /* x before the last norm                                       */
    float *scale;  /* of the last norm                                             */
    float *normed; /* rows x hidden                                                */
    float *logits; /* rows x this rank's vocabulary                                */
    float *scratch;
};

/* A model of `sequences` sequences a step, all values 0. With sequence parallelism the ranks divide the tokens. */
void model_create(struct model *m, const struct shape *s, struct parallel *p, int64_t sequences);
void model_free(struct model *m);

/* Leaves this rank's logits of all rows in m->logits. */
void model_forward(struct model *m, const int32_t *tokens);

/* The gradients of part `index` are complete on this rank; those of the parts before it are still to come. */
typedef void (*part_done)(int32_t index, void *user);

/* The parts: 0 has all that is complete last, the last one is the head. Neighbours in the array of gradients. */
int32_t model_parts(const struct model *m);
int64_t model_part(const struct model *m, int32_t index, float **gradients);

/*
 * Sets all gradients to the derivatives of the loss: `factor` times the sum over the tokens of -log probability of the
 * target. The loss lies behind the last gradient. tokens and targets have `rows` entries.
 */
void model_gradients(struct model *m, const int32_t *tokens, const int32_t *targets, float factor, part_done done,
                     void *user);

#endif
