/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forward and backward pass of dense layers. With X the inputs of a layer (images x inputs), W its weights and D the
 * derivative of the loss by its sums (images x outputs):
 *
 *     forward     Y  = ramp(X W + b)
 *     backward    dW = X' D,   db = column sums of D,   dX = (D W') times the slope of the ramp below
 *
 * The ramp is ReLU with its corner rounded off: 0 below -CORNER, x above CORNER, a parabola between. The slope of plain
 * ReLU jumps at 0, so that there the last bit of a sum decides about a whole gradient; then training on one rank and on
 * several would drift apart for no reason but rounding, and could not be compared.
 *
 * Gradients are sums over the images, not means: sums of shares add up to the sum of the batch, however it is cut.
 */
#include "model.h"

#include "common/common.h"
#include "data.h"
#include "matmul.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CORNER       0.25f
#define PART_WEIGHTS 32768 /* a layer with more is done in parts: a sum that begins earlier ends earlier */

static const int32_t layer_sizes[MODEL_LAYERS + 1] = {IMAGE_PIXELS, 256, 128, IMAGE_CLASSES};

/* How many parts a layer has, and where the rows of part number `at` begin; its biases belong to the last one. */
static int parts_of(const layer *l)
{
    const int64_t parts = (int64_t)l->inputs * l->outputs / PART_WEIGHTS;
    return parts > 1 ? (int)parts : 1;
}

static int64_t part_begin(const layer *l, int at)
{
    return (int64_t)l->inputs * at / parts_of(l);
}

static void list_parts(model *m, const layer *l)
{
    const int parts = parts_of(l);
    for (int i = 0; i < parts; i++) {
        const bool last = i + 1 == parts;
        const int64_t from = part_begin(l, i);
        const int64_t count = (part_begin(l, i + 1) - from) * l->outputs + (last ? l->outputs : 0);
        m->parts[m->part_count++] =
            (gradient_part){.gradients = l->weight_gradients + from * l->outputs, .count = count};
    }
}

void model_create(model *m, int64_t capacity)
{
    memset(m, 0, sizeof(*m));
    m->capacity = capacity;
    size_t largest = 0;
    for (int i = 0; i < MODEL_LAYERS; i++) {
        size_t weights = (size_t)layer_sizes[i] * (size_t)layer_sizes[i + 1];
        m->count += weights + (size_t)layer_sizes[i + 1];
        largest = weights > largest ? weights : largest;
    }
    m->parameters = allocate(m->count, sizeof(float));
    m->gradients = allocate(m->count + 1, sizeof(float));
    m->velocity = allocate(m->count, sizeof(float));
    m->transposed = allocate(largest, sizeof(float));
    size_t at = 0;
    for (int i = 0; i < MODEL_LAYERS; i++) {
        layer *l = &m->layers[i];
        l->inputs = layer_sizes[i];
        l->outputs = layer_sizes[i + 1];
        size_t weights = (size_t)l->inputs * (size_t)l->outputs;
        l->weights = m->parameters + at;
        l->weight_gradients = m->gradients + at;
        l->biases = m->parameters + at + weights;
        l->bias_gradients = m->gradients + at + weights;
        at += weights + (size_t)l->outputs;
        l->activations = allocate((size_t)capacity * (size_t)l->outputs, sizeof(float));
        l->deltas = allocate((size_t)capacity * (size_t)l->outputs, sizeof(float));
        list_parts(m, l);
    }
    m->parts[m->part_count - 1].count++; /* the loss */
}

void model_free(model *m)
{
    for (int i = 0; i < MODEL_LAYERS; i++) {
        free(m->layers[i].activations);
        free(m->layers[i].deltas);
    }
    free(m->parameters);
    free(m->gradients);
    free(m->velocity);
    free(m->transposed);
    memset(m, 0, sizeof(*m));
}

void model_randomize(model *m, uint64_t seed)
{
    memset(m->parameters, 0, m->count * sizeof(float));
    memset(m->velocity, 0, m->count * sizeof(float));
    for (int i = 0; i < MODEL_LAYERS; i++) {
        layer *l = &m->layers[i];
        const double bound = sqrt(6.0 / l->inputs);
        for (int64_t w = 0; w < (int64_t)l->inputs * l->outputs; w++) {
            double uniform = (double)(random_next(&seed) >> 11) * 0x1p-53;
            l->weights[w] = (float)((2 * uniform - 1) * bound);
        }
    }
}

static float ramp(float x)
{
    const float in_corner = (x + CORNER) * (x + CORNER) * (1 / (4 * CORNER));
    return x >= CORNER ? x : x <= -CORNER ? 0 : in_corner;
}

/* The slope of the ramp where its value is y. */
static float ramp_slope(float y)
{
    const float in_corner = sqrtf(y * (1 / CORNER));
    return y >= CORNER ? 1 : in_corner;
}

/* Leaves the last layer's sums (the logits) in its activations. */
static void forward(model *m, const float *inputs, int64_t count)
{
    for (int i = 0; i < MODEL_LAYERS; i++) {
        layer *l = &m->layers[i];
        const float *x = i == 0 ? inputs : m->layers[i - 1].activations;
        for (int64_t image = 0; image < count; image++) {
            memcpy(l->activations + image * l->outputs, l->biases, (size_t)l->outputs * sizeof(float));
        }
        matmul_add(l->activations, x, l->inputs, 1, l->weights, count, l->outputs, l->inputs);
        for (int64_t e = 0; i + 1 < MODEL_LAYERS && e < count * l->outputs; e++) {
            l->activations[e] = ramp(l->activations[e]);
        }
    }
}

/* Turns one image's logits into d loss / d logits = softmax - one_hot(label), and returns its loss. */
static double softmax_cross_entropy(const float *logits, uint8_t label, float *delta)
{
    float largest = logits[0];
    for (int c = 1; c < IMAGE_CLASSES; c++) {
        largest = logits[c] > largest ? logits[c] : largest;
    }
    float sum = 0;
    for (int c = 0; c < IMAGE_CLASSES; c++) {
        delta[c] = expf(logits[c] - largest);
        sum += delta[c];
    }
    for (int c = 0; c < IMAGE_CLASSES; c++) {
        delta[c] /= sum;
    }
    delta[label] -= 1;
    return (double)(logf(sum) + largest - logits[label]);
}

/* dW and db of a layer, whose first part is number `first` of the model's. */
static void layer_gradients(const layer *l, const float *x, int64_t count, int first, part_done done, void *user)
{
    for (int64_t e = 0; e < count * l->outputs; e++) {
        l->bias_gradients[e % l->outputs] += l->deltas[e];
    }
    for (int i = parts_of(l) - 1; i >= 0; i--) {
        const int64_t from = part_begin(l, i);
        matmul_add(l->weight_gradients + from * l->outputs, x + from, 1, l->inputs, l->deltas,
                   part_begin(l, i + 1) - from, l->outputs, count);
        done(first + i, user);
    }
}

void model_gradients(model *m, const float *inputs, const uint8_t *labels, int64_t count, part_done done, void *user)
{
    forward(m, inputs, count);
    const layer *last = &m->layers[MODEL_LAYERS - 1];
    double loss = 0;
    for (int64_t image = 0; image < count; image++) {
        loss += softmax_cross_entropy(last->activations + image * last->outputs, labels[image],
                                      last->deltas + image * last->outputs);
    }
    memset(m->gradients, 0, m->count * sizeof(float));
    m->gradients[m->count] = (float)loss;
    int first = m->part_count;
    for (int i = MODEL_LAYERS - 1; i >= 0; i--) {
        layer *l = &m->layers[i];
        const float *x = i == 0 ? inputs : m->layers[i - 1].activations;
        first -= parts_of(l);
        layer_gradients(l, x, count, first, done, user);
        if (i > 0) {
            layer *below = &m->layers[i - 1];
            memset(below->deltas, 0, (size_t)(count * below->outputs) * sizeof(float));
            transpose(m->transposed, l->weights, l->inputs, l->outputs);
            matmul_add(below->deltas, l->deltas, l->outputs, 1, m->transposed, count, l->inputs, l->outputs);
            for (int64_t e = 0; e < count * below->outputs; e++) {
                below->deltas[e] *= ramp_slope(below->activations[e]);
            }
        }
    }
}

int64_t model_correct(model *m, const float *inputs, const uint8_t *labels, int64_t count)
{
    forward(m, inputs, count);
    const layer *last = &m->layers[MODEL_LAYERS - 1];
    int64_t correct = 0;
    for (int64_t image = 0; image < count; image++) {
        const float *logits = last->activations + image * last->outputs;
        int best = 0;
        for (int c = 1; c < IMAGE_CLASSES; c++) {
            best = logits[c] > logits[best] ? c : best;
        }
        correct += best == labels[image];
    }
    return correct;
}

void model_update(model *m, float scale, float rate, float momentum)
{
    for (size_t i = 0; i < m->count; i++) {
        m->velocity[i] = momentum * m->velocity[i] + scale * m->gradients[i];
        m->parameters[i] -= rate * m->velocity[i];
    }
}
