/* SPDX-License-Identifier: BSD-3-Clause */
/* Fashion-MNIST: grey images of 28 x 28 pixels and a label 0..9 for each. */
#ifndef EXAMPLES_TRAIN_FASHION_MNIST_DATA_H
#define EXAMPLES_TRAIN_FASHION_MNIST_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IMAGE_PIXELS  784
#define IMAGE_CLASSES 10
#define DATA_DEFAULT  "/usr/share/datasets/fashion-mnist"

typedef struct dataset {
    int64_t count;
    uint8_t *pixels; /* count x IMAGE_PIXELS */
    uint8_t *labels; /* count                */
} dataset;

/* Reads DIRECTORY/PREFIX-images-idx3-ubyte.gz and PREFIX-labels-idx1-ubyte.gz (PREFIX is "train" or "t10k"). On failure
 * nothing is allocated and `why` holds one sentence. */
bool dataset_load(dataset *data, const char *directory, const char *prefix, char *why, size_t capacity);
void dataset_free(dataset *data);

/* Copies images order[first .. first+count) into floats of mean 0 and deviation 1, and their labels. */
void dataset_gather(const dataset *data, const int32_t *order, int64_t first, int64_t count, float *inputs,
                    uint8_t *labels);

/* Fills order[0 .. count) with 0, 1, 2, ... */
void order_plain(int32_t *order, int64_t count);

/* Shuffles it. The same seed gives the same order, so that all ranks agree without asking one another. */
void order_shuffle(int32_t *order, int64_t count, uint64_t seed);

#endif
