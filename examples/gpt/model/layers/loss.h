/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vocabulary-parallel cross entropy (Shoeybi et al. 2019): every rank has the logits of its part of the vocabulary. Two
 * all_reduces of one and two numbers a token replace an all_gather of all logits.
 */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_LOSS_H
#define EXAMPLES_GPT_MODEL_LAYERS_LOSS_H

#include "parallel.h"

#include <stdint.h>

/*
 * Returns the sum over the rows of -log softmax(logits)[target], and turns the logits, rows x width, into the
 * derivative of `factor` times that sum. This rank has tokens first .. first + width. `scratch` has room for 3 x rows
 * numbers.
 */
double loss_forward_backward(struct parallel *p, float *logits, const int32_t *targets, int64_t rows, int64_t first,
                             int64_t width, float factor, float *scratch);

#endif
