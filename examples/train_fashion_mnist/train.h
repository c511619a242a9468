/* SPDX-License-Identifier: BSD-3-Clause */
/* Data-parallel training: every rank holds the whole model and computes the gradients of its share of each batch. */
#ifndef EXAMPLES_TRAIN_FASHION_MNIST_TRAIN_H
#define EXAMPLES_TRAIN_FASHION_MNIST_TRAIN_H

#include "common/progress.h"
#include "data.h"
#include "model.h"

#include <tutti/tutti.h>

typedef struct train_options {
    int epochs;  /* the learning rate falls to 0 over them  */
    int batch;   /* images per step, of all ranks together */
    double rate; /* learning rate at the beginning         */
    uint64_t seed;
    tutti_wire wire; /* of the gradients */
} train_options;

typedef struct train_result {
    int64_t steps_per_epoch;
    int64_t steps;      /* of all epochs                                                */
    float *losses;      /* per step: mean over the batch. The caller frees it */
    float *first_epoch; /* the parameters after the first epoch. The caller frees it */
    double seconds;
    double waiting; /* seconds that this rank spent in communication instead of computing */
} train_result;

/* Trains m on the ranks of `group`, starting from rank 0's parameters. */
void train(tutti_group *group, const dataset *data, model *m, const train_options *o, progress *bar,
           train_result *result);

/* Seconds that a step takes, and that its computation and the sums of its gradients would take alone: medians of some
 * steps, which are run in turn, each with the time of the slowest rank. */
typedef struct step_times {
    double whole;
    double computing;
    double gradients;
} step_times;

/* Measures steps with the first batch. The model remains as it was. */
void measure_step(tutti_group *group, const dataset *data, model *m, const train_options *o, step_times *result);

/* The share of images that the model classifies correctly; every rank counts its share of them. */
double accuracy(tutti_group *group, const dataset *data, model *m);

#endif
