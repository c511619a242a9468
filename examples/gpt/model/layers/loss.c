/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With m the largest logit of a row, over all ranks, s the sum of exp(logit - m), and t the target's logit - m:
 *
 *     loss = log(s) - t,    d loss / d logit = exp(logit - m) / s - (1 for the target)
 *
 * m is a MAX all_reduce, and s and t are a SUM. Each rank adds its part of s. Only the rank that has the target adds t.
 */
#include "loss.h"

#include <math.h>

static void row_maxima(const float *logits, float *largest, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, logits += width) {
        largest[r] = logits[0];
        for (int64_t i = 1; i < width; i++) {
            largest[r] = logits[i] > largest[r] ? logits[i] : largest[r];
        }
    }
}

double loss_forward_backward(struct parallel *p, float *logits, const int32_t *targets, int64_t rows, int64_t first,
                             int64_t width, float factor, float *scratch)
{
    float *largest = scratch;
    float *sums = scratch + rows;
    float *wanted = sums + rows; /* behind the sums, so that one all_reduce does both */
    row_maxima(logits, largest, rows, width);
    tensor_all_reduce(p, largest, rows, TUTTI_MAX);
    for (int64_t r = 0; r < rows; r++) {
        float *row = logits + r * width;
        const int64_t target = targets[r] - first;
        wanted[r] = target >= 0 && target < width ? row[target] - largest[r] : 0;
        sums[r] = 0;
        for (int64_t i = 0; i < width; i++) {
            row[i] = expf(row[i] - largest[r]);
            sums[r] += row[i];
        }
    }
    tensor_all_reduce(p, sums, 2 * rows, TUTTI_SUM);
    double loss = 0;
    for (int64_t r = 0; r < rows; r++) {
        float *row = logits + r * width;
        const int64_t target = targets[r] - first;
        for (int64_t i = 0; i < width; i++) {
            row[i] *= factor / sums[r];
        }
        if (target >= 0 && target < width) {
            row[target] -= factor;
        }
        loss += (double)(logf(sums[r]) - wanted[r]);
    }
    return loss;
}
