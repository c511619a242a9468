/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For each sequence and head, with Q, K and V of context x width:
 *
 *     forward    P = softmax(Q K' / sqrt(width)), only keys up to the query's own position;    O = P V
 *     backward   dV = P' dO;   dP = dO V';   dS = P (dP - row sums of P dP);   dQ = dS K;   dK = dS' Q
 *
 * Keys and values that several heads share get the sum of the heads' gradients. P is kept, since at these lengths it is
 * small; FlashAttention (Dao et al. 2022) is the way to do without.
 */
#include "attention.h"

#include "product.h"

#include <math.h>
#include <string.h>

/* One head of one sequence: where its parts begin in `projected`, or in its gradients, and in the other arrays. */
struct place {
    int64_t query, key, value, mixed, weights;
    int64_t stride;     /* of projected */
    int64_t out_stride; /* of mixed     */
    float keep;         /* 1: an earlier head has the same keys and values, to whose gradients this one adds */
};

static struct place place_of(const struct attention *a, int64_t sequence, int64_t head)
{
    const int64_t shared = a->heads / a->kv_heads;
    const int64_t stride = (a->heads + 2 * a->kv_heads) * a->width;
    const int64_t first = sequence * a->context;
    return (struct place){
        .query = first * stride + head * a->width,
        .key = first * stride + (a->heads + head / shared) * a->width,
        .value = first * stride + (a->heads + a->kv_heads + head / shared) * a->width,
        .mixed = (first * a->heads + head) * a->width,
        .weights = (sequence * a->heads + head) * a->context * a->context,
        .stride = stride,
        .out_stride = a->heads * a->width,
        .keep = head % shared == 0 ? 0 : 1,
    };
}

static void causal_softmax(float *rows, int64_t context)
{
    for (int64_t i = 0; i < context; i++, rows += context) {
        float largest = rows[0];
        for (int64_t j = 1; j <= i; j++) {
            largest = rows[j] > largest ? rows[j] : largest;
        }
        float sum = 0;
        for (int64_t j = 0; j <= i; j++) {
            rows[j] = expf(rows[j] - largest);
            sum += rows[j];
        }
        for (int64_t j = 0; j <= i; j++) {
            rows[j] /= sum;
        }
        memset(rows + i + 1, 0, (size_t)(context - i - 1) * sizeof(float));
    }
}

/* d: in, the derivative by the softmax; out, that by its input. */
static void softmax_backward(const float *softmax, float *d, int64_t context)
{
    for (int64_t i = 0; i < context; i++, softmax += context, d += context) {
        float along = 0;
        for (int64_t j = 0; j <= i; j++) {
            along += softmax[j] * d[j];
        }
        for (int64_t j = 0; j <= i; j++) {
            d[j] = softmax[j] * (d[j] - along);
        }
        memset(d + i + 1, 0, (size_t)(context - i - 1) * sizeof(float));
    }
}

void attention_forward(const struct attention *a, const float *projected, float *weights, float *mixed)
{
    const float factor = 1 / sqrtf((float)a->width);
    const int64_t n = a->context;
    for (int64_t at = 0; at < a->sequences * a->heads; at++) {
        const struct place h = place_of(a, at / a->heads, at % a->heads);
        const struct matrix q = {projected + h.query, h.stride, false};
        const struct matrix k = {projected + h.key, h.stride, true};
        const struct matrix v = {projected + h.value, h.stride, false};
        float *p = weights + h.weights;
        product(p, n, q, k, n, n, a->width, factor, 0);
        causal_softmax(p, n);
        product(mixed + h.mixed, h.out_stride, (struct matrix){p, n, false}, v, n, a->width, n, 1, 0);
    }
}

void attention_backward(const struct attention *a, const float *projected, const float *weights, const float *d_mixed,
                        float *d_projected, float *scratch)
{
    const float factor = 1 / sqrtf((float)a->width);
    const int64_t n = a->context;
    for (int64_t at = 0; at < a->sequences * a->heads; at++) {
        const struct place h = place_of(a, at / a->heads, at % a->heads);
        const struct matrix d_out = {d_mixed + h.mixed, h.out_stride, false};
        const float *p = weights + h.weights;
        product(d_projected + h.value, h.stride, (struct matrix){p, n, true}, d_out, n, a->width, n, 1, h.keep);
        product(scratch, n, d_out, (struct matrix){projected + h.value, h.stride, true}, n, n, a->width, 1, 0);
        softmax_backward(p, scratch, n);
        product(d_projected + h.query, h.stride, (struct matrix){scratch, n, false},
                (struct matrix){projected + h.key, h.stride, false}, n, a->width, n, factor, 0);
        product(d_projected + h.key, h.stride, (struct matrix){scratch, n, true},
                (struct matrix){projected + h.query, h.stride, false}, n, a->width, n, factor, h.keep);
    }
}
