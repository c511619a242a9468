/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each row is read once, from its begin to its end, so the processor fetches ahead. LANES sums that do not depend on
 * each other let the compiler use vector registers of any width. The compiler makes the loops for several instruction
 * sets, and the program takes the best one when it starts.
 *
 * OpenBLAS 0.3.21 is faster with matrices in the caches, but takes twice the time where they come from memory, and its
 * build in Debian has no product of bf16.
 */
#include "weights.h"

#include "common/common.h"

#include <stdlib.h>
#include <string.h>

#define LANES 32

/* The sanitizers of GCC do not run with functions that are chosen when the program is loaded. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif

static inline float widen(uint16_t value)
{
    const uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof(result));
    return result;
}

/* To the nearest, ties to even. Weights are finite. */
static uint16_t narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

FOR_EACH_CPU
static void times_f32(const float *w, const float *x, float *y, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++, w += columns) {
        float sums[LANES] = {0};
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES) {
            for (int i = 0; i < LANES; i++) {
                sums[i] += w[c + i] * x[c + i];
            }
        }
        float sum = 0;
        for (; c < columns; c++) {
            sum += w[c] * x[c];
        }
        for (int i = 0; i < LANES; i++) {
            sum += sums[i];
        }
        y[row] = sum;
    }
}

FOR_EACH_CPU
static void times_bf16(const uint16_t *w, const float *x, float *y, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++, w += columns) {
        float sums[LANES] = {0};
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES) {
            for (int i = 0; i < LANES; i++) {
                sums[i] += widen(w[c + i]) * x[c + i];
            }
        }
        float sum = 0;
        for (; c < columns; c++) {
            sum += widen(w[c]) * x[c];
        }
        for (int i = 0; i < LANES; i++) {
            sum += sums[i];
        }
        y[row] = sum;
    }
}

void weights_times(const struct weights *w, const float *x, float *y)
{
    if (w->bf16) {
        times_bf16(w->values, x, y, w->rows, w->columns);
    } else {
        times_f32(w->values, x, y, w->rows, w->columns);
    }
}

/* The empty instruction takes the sums, so the compiler does not leave them out. */
FOR_EACH_CPU
static void read_words(const uint32_t *words, size_t count)
{
    uint32_t sums[LANES] = {0};
    for (size_t w = 0; w + LANES <= count; w += LANES) {
        for (int i = 0; i < LANES; i++) {
            sums[i] += words[w + i];
        }
    }
    __asm__ __volatile__("" : : "r"(sums) : "memory");
}

void weights_read(const struct weights *w)
{
    read_words(w->values, weights_bytes(w) / sizeof(uint32_t));
}

struct weights weights_open(float *values, int64_t rows, int64_t columns, bool bf16)
{
    struct weights w = {rows, columns, bf16, values};
    if (bf16) {
        uint16_t *copy = allocate((size_t)(rows * columns), sizeof(*copy));
        for (int64_t i = 0; i < rows * columns; i++) {
            copy[i] = narrow(values[i]);
        }
        w.values = copy;
    }
    return w;
}

void weights_close(struct weights *w)
{
    if (w->bf16) { /* others are borrowed */
        free(w->values);
    }
}

size_t weights_bytes(const struct weights *w)
{
    return (size_t)(w->rows * w->columns) * (w->bf16 ? sizeof(uint16_t) : sizeof(float));
}

void weights_row(const struct weights *w, int64_t row, float *values)
{
    const int64_t first = row * w->columns;
    for (int64_t c = 0; c < w->columns; c++) {
        values[c] = w->bf16 ? widen(((const uint16_t *)w->values)[first + c]) : ((const float *)w->values)[first + c];
    }
}
