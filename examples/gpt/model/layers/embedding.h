/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors of tokens and of positions. The rows of the tokens' table are split over the tensor-parallel ranks
 * (vocabulary-parallel): a rank looks up the tokens that it has, takes zeros for the others, and the ranks' results add
 * up.
 */
#ifndef EXAMPLES_GPT_MODEL_LAYERS_EMBEDDING_H
#define EXAMPLES_GPT_MODEL_LAYERS_EMBEDDING_H

#include "parallel.h"
#include "parameters.h"

#include <stdint.h>

/* Of x, rows x hidden, tensor_own is valid afterwards. Row r is at position r % context of its sequence. */
void embedding_forward(struct parallel *p, const struct parameters *m, const int32_t *tokens, float *x, int64_t rows,
                       int64_t context);

/* Sets the gradients of both tables. Of dx only tensor_own need be valid before. */
void embedding_backward(struct parallel *p, struct parameters *m, const int32_t *tokens, float *dx, int64_t rows,
                        int64_t context);

#endif
