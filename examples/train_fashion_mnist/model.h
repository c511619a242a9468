/* SPDX-License-Identifier: BSD-3-Clause */
/* A network of dense layers, 784-256-128-10: a rounded ReLU between them, softmax and cross entropy at the end. */
#ifndef EXAMPLES_TRAIN_FASHION_MNIST_MODEL_H
#define EXAMPLES_TRAIN_FASHION_MNIST_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define MODEL_LAYERS 3

/* One layer's views into the model's arrays, and what it remembers of the images that pass through. */
typedef struct layer {
    int32_t inputs, outputs;
    float *weights, *weight_gradients; /* inputs x outputs */
    float *biases, *bias_gradients;    /* outputs          */
    float *activations;                /* images x outputs */
    float *deltas;                     /* d loss / d (weights * input + bias), images x outputs */
} layer;

/* Gradients that are complete at the same time: all of a small layer, or some rows of a large one. */
#define MODEL_PARTS 16 /* at most */

typedef struct gradient_part {
    float *gradients;
    int64_t count;
} gradient_part;

/* All parameters lie in one array, and so do all gradients: layer by layer, weights before biases. */
typedef struct model {
    size_t count;
    float *parameters;
    float *gradients; /* count + 1: the last one is the sum of the losses, so that it travels along */
    float *velocity;  /* momentum of the updates */
    int64_t capacity; /* images at a time */
    float *transposed;
    layer layers[MODEL_LAYERS];
    gradient_part parts[MODEL_PARTS]; /* one behind the other; the last one has the sum of the losses, too */
    int part_count;
} model;

void model_create(model *m, int64_t capacity);
void model_free(model *m);

/* He initialisation: uniform with variance 2 / inputs; biases 0. */
void model_randomize(model *m, uint64_t seed);

/* Called when the gradients of a part are complete, while those of the parts before it are still to come. */
typedef void (*part_done)(int index, void *user);

/* Sums the gradients and the loss of `count` <= capacity images into m->gradients, which is cleared first. The last
 * part is done first, and the loss with it. */
void model_gradients(model *m, const float *inputs, const uint8_t *labels, int64_t count, part_done done, void *user);

/* How many of the images the model classifies correctly. */
int64_t model_correct(model *m, const float *inputs, const uint8_t *labels, int64_t count);

/* Gradient descent with momentum: velocity = momentum * velocity + gradient * scale; parameter -= rate * velocity. */
void model_update(model *m, float scale, float rate, float momentum);

#endif
