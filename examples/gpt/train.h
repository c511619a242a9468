/* SPDX-License-Identifier: BSD-3-Clause */
/* Training on a text: each sequence is a part of it, and each token's target is the token behind it. */
#ifndef EXAMPLES_GPT_TRAIN_H
#define EXAMPLES_GPT_TRAIN_H

#include "adam.h"
#include "common/progress.h"
#include "gradients.h"
#include "model/model.h"
#include "options.h"
#include "text.h"

#define TRAIN_TEXT "/usr/share/games/fortunes" /* Debian: fortunes */

/* A model in training on this rank. */
struct trainer {
    struct parallel *parallel;
    struct model model;
    struct adam adam;
    struct gradients gradients;
    const struct text *text;
    int32_t steps, batch;
    double rate;
    uint64_t seed;
    int32_t *tokens, *targets; /* of this replica's share of the batch */
    const struct options *options;
};

/* Whether a batch can be shared by these ranks, and the text is long enough. If not, `why` holds one sentence. */
bool train_check(const struct options *o, int32_t ranks, int32_t tensor, const struct text *text, char *why,
                 size_t capacity);

/* Parameters from the seed, no step done. Options and text are borrowed until trainer_close. */
void trainer_open(struct trainer *t, struct parallel *p, const struct options *o, const struct text *text);
void trainer_close(struct trainer *t);

/* The gradients of the next batch, summed over the replicas; returns its mean loss. */
double trainer_gradients(struct trainer *t);

/* One step: gradients and update. Returns the mean loss of the batch, which is undefined after an error in
 * t->parallel. */
double trainer_step(struct trainer *t);

/* The model, the optimiser and the step of the checkpoint replace those of `t`. */
void trainer_load(struct trainer *t);

/* Trains until t->steps are done, or an error is in t->parallel. Writes checkpoints, if the options name a file.
 * `losses`, if not NULL, gets the loss of each step. */
void train(struct trainer *t, progress *bar, double *losses);

/* The command `gpt train`. Returns the exit status. */
int train_command(tutti_group *world, const struct options *o);

#endif
