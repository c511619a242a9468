/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of all parameters of a model, and this rank's part of each. A parameter is a matrix, outputs x inputs, so a
 * layer computes x W'. It is split along its rows (column-parallel: a rank computes some of the outputs), along its
 * columns (row-parallel: a rank has some of the inputs), or it is the same on every rank.
 *
 * All values lie in one array, and so do all gradients, in the order of the list: first the parameters that are not
 * split, then the embedding of tokens, then block by block, then the head. The backward pass completes gradients from
 * the end to the beginning, so each part can be summed over the replicas while the next one is computed. The matrices
 * of query, key and value, and those of gate and up, are neighbours: one product computes all of their outputs.
 */
#ifndef EXAMPLES_GPT_MODEL_PARAMETERS_H
#define EXAMPLES_GPT_MODEL_PARAMETERS_H

#include "shape.h"

struct parameter {
    char name[32];
    int64_t shape[2]; /* rows and columns of the whole matrix     */
    int64_t local[2]; /* of this rank's part                      */
    int split;        /* dimension that is split; -1: none        */
    float deviation;  /* of its random values; 0: all ones        */
    int64_t offset;   /* of its first number in the array         */
    float *value;     /* in the arrays; NULL before parameters_allocate */
    float *gradient;
};

struct block_parameters {
    struct parameter *norm1, *query, *key, *value, *output, *norm2, *gate, *up, *down;
};

struct parameters {
    int32_t count;
    struct parameter *list;
    struct parameter *position, *norm, *token, *head;
    struct block_parameters *blocks;
    int64_t floats;     /* in each array                                                       */
    int64_t replicated; /* that many at the beginning are not split                            */
    float *values;
    float *gradients; /* floats + 1: the last one is the loss, so that it is summed along with them */
    int32_t rank, ranks;
};

/* Lists the parameters of a shape as rank `rank` of `ranks` tensor-parallel ones has them, without memory for them. */
void parameters_create(struct parameters *p, const struct shape *s, int32_t rank, int32_t ranks);

/* Memory for the values (zeros), and if wanted for the gradients. */
void parameters_allocate(struct parameters *p, bool gradients);
void parameters_free(struct parameters *p);

/* Sets all values from a seed. Each number depends on its place in the whole matrix only, so any split of the ranks
 * gives the same model. */
void parameters_randomize(struct parameters *p, uint64_t seed);

/* The first value of element (row, column) of this rank's part. */
float parameter_initial(const struct parameters *p, const struct parameter *which, uint64_t seed, int64_t row,
                        int64_t column);

#endif
