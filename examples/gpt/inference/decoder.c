/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forward pass of model.c for one token, with matrix-vector products instead of products of matrices. A token is
 * drawn by the Gumbel-max trick (Gumbel 1954): the largest of logit / temperature + noise is a sample of the softmax.
 * Noise depends on seed, position and token only. So each rank finds the best of its own part of the vocabulary, and
 * the ranks exchange only these.
 */
#include "decoder.h"

#include "common/common.h"
#include "model/layers/norm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct weights one_parameter(const struct parameter *p, bool bf16)
{
    return weights_open(p->value, p->local[0], p->local[1], bf16);
}

static int64_t head_width(const struct decoder *d)
{
    return d->shape.hidden / d->shape.heads;
}

static int64_t own_keys(const struct decoder *d)
{
    return d->shape.kv_heads / d->parameters->ranks * head_width(d);
}

void decoder_open(struct decoder *d, const struct shape *shape, const struct parameters *parameters,
                  struct parallel *parallel, bool bf16)
{
    *d = (struct decoder){.shape = *shape, .parallel = parallel, .parameters = parameters};
    const int64_t hidden = shape->hidden;
    const int64_t queries = hidden / parameters->ranks;
    const int64_t keys = own_keys(d);
    const int64_t mlp = shape->mlp / parameters->ranks;
    d->token = one_parameter(parameters->token, bf16);
    d->head = one_parameter(parameters->head, bf16);
    d->layers = allocate((size_t)shape->layers, sizeof(*d->layers));
    for (int32_t i = 0; i < shape->layers; i++) {
        const struct block_parameters *b = &parameters->blocks[i];
        d->layers[i] = (struct decoder_layer){
            .qkv = weights_open(b->query->value, queries + 2 * keys, hidden, bf16),
            .output = one_parameter(b->output, bf16),
            .gate_up = weights_open(b->gate->value, 2 * mlp, hidden, bf16),
            .down = one_parameter(b->down, bf16),
            .norm1 = b->norm1->value,
            .norm2 = b->norm2->value,
            .keys = allocate((size_t)(shape->context * keys), sizeof(float)),
            .values = allocate((size_t)(shape->context * keys), sizeof(float)),
        };
    }
    d->x = allocate((size_t)hidden, sizeof(float));
    d->sum = allocate((size_t)hidden, sizeof(float));
    d->normed = allocate((size_t)hidden, sizeof(float));
    d->wide = allocate((size_t)(queries + 2 * keys > 2 * mlp ? queries + 2 * keys : 2 * mlp), sizeof(float));
    d->inner = allocate((size_t)(queries > mlp ? queries : mlp), sizeof(float));
    d->scores = allocate((size_t)shape->context, sizeof(float));
    d->logits = allocate((size_t)d->head.rows, sizeof(float));
}

void decoder_close(struct decoder *d)
{
    for (int32_t i = 0; i < d->shape.layers; i++) {
        struct decoder_layer *l = &d->layers[i];
        weights_close(&l->qkv);
        weights_close(&l->output);
        weights_close(&l->gate_up);
        weights_close(&l->down);
        free(l->keys);
        free(l->values);
    }
    weights_close(&d->token);
    weights_close(&d->head);
    free(d->layers);
    free(d->x);
    free(d->sum);
    free(d->normed);
    free(d->wide);
    free(d->inner);
    free(d->scores);
    free(d->logits);
    *d = (struct decoder){0};
}

size_t decoder_bytes(const struct decoder *d)
{
    size_t bytes = weights_bytes(&d->head);
    for (int32_t i = 0; i < d->shape.layers; i++) {
        const struct decoder_layer *l = &d->layers[i];
        bytes +=
            weights_bytes(&l->qkv) + weights_bytes(&l->output) + weights_bytes(&l->gate_up) + weights_bytes(&l->down);
    }
    return bytes;
}

void decoder_read(const struct decoder *d)
{
    for (int32_t i = 0; i < d->shape.layers; i++) {
        const struct decoder_layer *l = &d->layers[i];
        weights_read(&l->qkv);
        weights_read(&l->output);
        weights_read(&l->gate_up);
        weights_read(&l->down);
    }
    weights_read(&d->head);
}

int32_t decoder_calls(const struct decoder *d)
{
    return 2 * d->shape.layers + 2;
}

/* Keeps how long a collective took that began when parallel->seconds was `before`. */
static void keep_call(struct decoder *d, double before)
{
    if (d->calls) {
        d->calls[d->call++] = d->parallel->seconds - before;
    }
}

/* x += the sum of d->sum over the ranks. */
static void add_sum(struct decoder *d)
{
    const double before = d->parallel->seconds;
    tensor_leave(d->parallel, d->sum, 1, d->shape.hidden);
    keep_call(d, before);
    for (int32_t i = 0; i < d->shape.hidden; i++) {
        d->x[i] += d->sum[i];
    }
}

static void normalise(struct decoder *d, const float *gain)
{
    float scale;
    norm_forward(d->x, gain, d->normed, &scale, 1, d->shape.hidden);
}

/* The rank with the token's row has it, the others have zeros; the sum is the row. */
static void embed(struct decoder *d, int32_t token, int32_t position)
{
    const int64_t row = token - d->parameters->rank * d->token.rows;
    if (row >= 0 && row < d->token.rows) {
        weights_row(&d->token, row, d->sum);
    } else {
        memset(d->sum, 0, (size_t)d->shape.hidden * sizeof(float));
    }
    const float *place = d->parameters->position->value + (int64_t)position * d->shape.hidden;
    memcpy(d->x, place, (size_t)d->shape.hidden * sizeof(float));
    add_sum(d);
}

/* The weights of one head's positions: the softmax of its scores, in place. */
static void softmax(float *scores, int32_t count)
{
    float most = scores[0];
    float sum = 0;
    for (int32_t i = 1; i < count; i++) {
        most = fmaxf(most, scores[i]);
    }
    for (int32_t i = 0; i < count; i++) {
        scores[i] = expf(scores[i] - most);
        sum += scores[i];
    }
    for (int32_t i = 0; i < count; i++) {
        scores[i] /= sum;
    }
}

/* One head: the mean of the values up to `position`, weighted by how well their keys fit the query. */
static void attend_head(struct decoder *d, const float *query, const float *keys, const float *values, int32_t position,
                        float *out)
{
    const int64_t width = head_width(d);
    const int64_t stride = own_keys(d);
    const float scale = 1 / sqrtf((float)width);
    for (int32_t p = 0; p <= position; p++) {
        float score = 0;
        for (int64_t i = 0; i < width; i++) {
            score += query[i] * keys[p * stride + i];
        }
        d->scores[p] = score * scale;
    }
    softmax(d->scores, position + 1);
    memset(out, 0, (size_t)width * sizeof(float));
    for (int32_t p = 0; p <= position; p++) {
        for (int64_t i = 0; i < width; i++) {
            out[i] += d->scores[p] * values[p * stride + i];
        }
    }
}

static void attention(struct decoder *d, struct decoder_layer *l, int32_t position)
{
    const int64_t width = head_width(d);
    const int64_t keys = own_keys(d);
    const int64_t queries = l->qkv.rows - 2 * keys;
    const int64_t share = d->shape.heads / d->shape.kv_heads;
    normalise(d, l->norm1);
    weights_times(&l->qkv, d->normed, d->wide);
    memcpy(l->keys + position * keys, d->wide + queries, (size_t)keys * sizeof(float));
    memcpy(l->values + position * keys, d->wide + queries + keys, (size_t)keys * sizeof(float));
    for (int64_t head = 0; head < queries / width; head++) {
        const int64_t group = head / share * width;
        attend_head(d, d->wide + head * width, l->keys + group, l->values + group, position, d->inner + head * width);
    }
    weights_times(&l->output, d->inner, d->sum);
    add_sum(d);
}

static void mlp(struct decoder *d, struct decoder_layer *l)
{
    const int64_t width = l->down.columns;
    const float *gate = d->wide;
    const float *up = d->wide + width;
    normalise(d, l->norm2);
    weights_times(&l->gate_up, d->normed, d->wide);
    for (int64_t i = 0; i < width; i++) {
        d->inner[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
    }
    weights_times(&l->down, d->inner, d->sum);
    add_sum(d);
}

void decoder_step(struct decoder *d, int32_t token, int32_t position)
{
    embed(d, token, position);
    for (int32_t i = 0; i < d->shape.layers; i++) {
        attention(d, &d->layers[i], position);
        mlp(d, &d->layers[i]);
    }
    normalise(d, d->parameters->norm->value);
    weights_times(&d->head, d->normed, d->logits);
}

/* Noise of the distribution -log(-log(u)), with u uniform in (0, 1). */
static double gumbel(uint64_t seed, int32_t position, int64_t token)
{
    uint64_t key = seed;
    key = random_next(&key) + (uint64_t)position;
    key = random_next(&key) + (uint64_t)token;
    const double uniform = ((double)(random_next(&key) >> 12) + 0.5) * 0x1p-52;
    return -log(-log(uniform));
}

int32_t decoder_choose(struct decoder *d, int32_t choices, double temperature, uint64_t seed, int32_t position)
{
    const int64_t first = d->parameters->rank * d->head.rows;
    double best[2] = {-HUGE_VAL, 0}; /* its score, and the token */
    for (int64_t i = 0; i < d->head.rows && first + i < choices; i++) {
        const double noise = temperature > 0 ? temperature * gumbel(seed, position, first + i) : 0;
        if ((double)d->logits[i] + noise > best[0]) {
            best[0] = (double)d->logits[i] + noise;
            best[1] = (double)(first + i);
        }
    }
    const double before = d->parallel->seconds;
    const int32_t token = tensor_best(d->parallel, best[0], (int32_t)best[1]);
    keep_call(d, before);
    return token;
}
