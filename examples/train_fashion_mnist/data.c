/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The IDX format: a big-endian header {0, 0, type 8 = bytes, number of dimensions}, one 32-bit length per dimension,
 * then the bytes. The files are compressed by gzip; zlib reads them as if they were plain. Everything in the header is
 * checked before memory is taken for it.
 */
#include "data.h"

#include "common/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Mean and deviation of all training pixels, scaled to 0..1. */
#define PIXEL_MEAN      0.2860f
#define PIXEL_DEVIATION 0.3530f

static bool read_header(gzFile file, unsigned dimensions, uint32_t *lengths)
{
    uint8_t bytes[16];
    unsigned size = 4 + 4 * dimensions;
    if (gzread(file, bytes, size) != (int)size || bytes[0] || bytes[1] || bytes[2] != 8 || bytes[3] != dimensions) {
        return false;
    }
    for (unsigned i = 0; i < dimensions; i++) {
        const uint8_t *b = bytes + 4 + 4 * i;
        lengths[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    return true;
}

/* Reads a file whose items have `item` bytes each (1 for labels). NULL and a sentence if it is not what it should
 * be. */
static uint8_t *read_idx(const char *path, size_t item, int64_t *count, char *why, size_t capacity)
{
    gzFile file = gzopen(path, "rb");
    if (!file) {
        snprintf(why, capacity,
                 "cannot read %s: install the data set (Debian: apt install dataset-fashion-mnist), or name its "
                 "directory with --data",
                 path);
        return NULL;
    }
    uint8_t *items = NULL;
    uint32_t lengths[3] = {0, 0, 0};
    bool images = item == IMAGE_PIXELS;
    if (!read_header(file, images ? 3 : 1, lengths) || (images && (lengths[1] != 28 || lengths[2] != 28)) ||
        lengths[0] == 0 || lengths[0] > 1000000) {
        snprintf(why, capacity, "%s is not a Fashion-MNIST file of %s", path, images ? "28 x 28 images" : "labels");
    } else {
        unsigned size = (unsigned)(lengths[0] * item);
        items = malloc(size);
        if (!items) {
            snprintf(why, capacity, "out of memory reading %s (%u bytes)", path, size);
        } else if (gzread(file, items, size) != (int)size) {
            snprintf(why, capacity, "%s ends early: it should hold %u items", path, lengths[0]);
            free(items);
            items = NULL;
        }
        *count = lengths[0];
    }
    gzclose(file);
    return items;
}

bool dataset_load(dataset *data, const char *directory, const char *prefix, char *why, size_t capacity)
{
    char path[4096];
    int64_t images = 0;
    int64_t labels = 0;
    memset(data, 0, sizeof(*data));
    snprintf(path, sizeof(path), "%s/%s-images-idx3-ubyte.gz", directory, prefix);
    data->pixels = read_idx(path, IMAGE_PIXELS, &images, why, capacity);
    if (!data->pixels) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/%s-labels-idx1-ubyte.gz", directory, prefix);
    data->labels = read_idx(path, 1, &labels, why, capacity);
    bool good = data->labels != NULL;
    if (good && images != labels) {
        snprintf(why, capacity, "%s has %lld labels for %lld images", path, (long long)labels, (long long)images);
        good = false;
    }
    for (int64_t i = 0; good && i < labels; i++) {
        if (data->labels[i] >= IMAGE_CLASSES) {
            snprintf(why, capacity, "%s: label %lld is %d, not 0..9", path, (long long)i, data->labels[i]);
            good = false;
        }
    }
    data->count = images;
    if (!good) {
        dataset_free(data);
    }
    return good;
}

void dataset_free(dataset *data)
{
    free(data->pixels);
    free(data->labels);
    memset(data, 0, sizeof(*data));
}

void dataset_gather(const dataset *data, const int32_t *order, int64_t first, int64_t count, float *inputs,
                    uint8_t *labels)
{
    const float scale = 1.0f / (255.0f * PIXEL_DEVIATION);
    const float shift = -PIXEL_MEAN / PIXEL_DEVIATION;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *pixels = data->pixels + (size_t)order[first + i] * IMAGE_PIXELS;
        float *input = inputs + i * IMAGE_PIXELS;
        for (int p = 0; p < IMAGE_PIXELS; p++) {
            input[p] = (float)pixels[p] * scale + shift;
        }
        labels[i] = data->labels[order[first + i]];
    }
}

void order_plain(int32_t *order, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        order[i] = (int32_t)i;
    }
}

void order_shuffle(int32_t *order, int64_t count, uint64_t seed)
{
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = (int64_t)(random_next(&seed) % (uint64_t)(i + 1));
        int32_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}
