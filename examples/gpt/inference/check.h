/* SPDX-License-Identifier: BSD-3-Clause */
/* A generated text against the same model on one rank, and against the forward pass of the training. */
#ifndef EXAMPLES_GPT_INFERENCE_CHECK_H
#define EXAMPLES_GPT_INFERENCE_CHECK_H

#include "generate.h"

#define CHECK_BOUND 1e-3 /* of the difference of two logits, which are of the order of 10; measured: 2e-5 at most */

/*
 * `history` has this rank's logits of each generated token: a row for each entry of its vocabulary, a column a token.
 * Rank 0 prints the largest differences. Returns on all ranks whether they are within the bound. Collective.
 */
bool check_text(struct decoder *d, const struct options *o, const struct sequence *s, float *history);

#endif
