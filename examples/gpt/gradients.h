/* SPDX-License-Identifier: BSD-3-Clause */
/* Data parallelism: the sum of all gradients over the replicas, while the backward pass goes on (docs/overlap.md). */
#ifndef EXAMPLES_GPT_GRADIENTS_H
#define EXAMPLES_GPT_GRADIENTS_H

#include "model/model.h"

struct gradients {
    struct parallel *parallel;
    tutti_bucketer *bucketer; /* NULL: there is one replica only */
};

/* The model's gradients stay where they are until gradients_close. */
void gradients_open(struct gradients *g, struct model *m, tutti_wire wire);
void gradients_close(struct gradients *g);

/* A part is complete on this rank, so its sum may begin: a part_done, with a struct gradients. */
void gradients_ready(int32_t index, void *user);

/* Returns when all gradients, and the loss behind them, are sums over the replicas. */
void gradients_wait(struct gradients *g);

#endif
