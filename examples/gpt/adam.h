/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimiser: AdamW (Loshchilov & Hutter 2019), after the gradients have been cut to a length of 1 at most. */
#ifndef EXAMPLES_GPT_ADAM_H
#define EXAMPLES_GPT_ADAM_H

#include "model/parameters.h"
#include "parallel.h"

struct adam {
    int64_t step;   /* steps done                                              */
    float *moments; /* first moments of all parameters, then the second ones */
};

void adam_create(struct adam *a, const struct parameters *p);
void adam_free(struct adam *a);

/* One update of all parameters by their gradients. All ranks update what is not split by the same numbers. */
void adam_update(struct adam *a, struct parameters *p, struct parallel *parallel, double rate);

#endif
