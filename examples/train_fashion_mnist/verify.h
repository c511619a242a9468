/* SPDX-License-Identifier: BSD-3-Clause */
/* Proofs that the parallel training did what it should. */
#ifndef EXAMPLES_TRAIN_FASHION_MNIST_VERIFY_H
#define EXAMPLES_TRAIN_FASHION_MNIST_VERIFY_H

#include "train.h"

/* Gathers a hash of every rank's parameters, and prints them on rank 0. Returns whether all are equal. */
bool verify_replicas(tutti_group *group, const model *m);

/* Repeats the training on one rank alone while the others wait, and compares its losses and parameters with those of
 * the parallel training. Prints and judges on rank 0; the others always return true. */
bool verify_against_one_rank(tutti_group *group, const dataset *data, const train_options *o, const char *terminal,
                             const train_result *parallel);

#endif
