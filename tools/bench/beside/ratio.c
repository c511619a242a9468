/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How sure a ratio of two medians is: the bootstrap. Iterations are drawn again, with replacement, both samples of one
 * together, because what disturbs one often disturbs the other; and in short runs of neighbours, because those are
 * alike and would seem to say more than they do. The interval is what 95 % of these ratios lie in. The seed is fixed:
 * the same samples give the same interval.
 */
#include "bench/beside/ratio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RESAMPLES 1000
#define SEED      UINT64_C(0x9e3779b97f4a7c15)

struct ordered {
    int64_t value;
    int iteration;
};

static int compare(const void *a, const void *b)
{
    const int64_t x = ((const struct ordered *)a)->value;
    const int64_t y = ((const struct ordered *)b)->value;
    return (x > y) - (x < y);
}

static int compare_double(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* xorshift64* */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static struct ordered *order(const int64_t *samples, int count)
{
    struct ordered *o = malloc((size_t)count * sizeof(*o));
    for (int i = 0; o && i < count; i++) {
        o[i] = (struct ordered){samples[i], i};
    }
    if (o) {
        qsort(o, (size_t)count, sizeof(*o), compare);
    }
    return o;
}

/* The median, as samples.c has it, where iteration i occurs drawn[i] times, `count` together. */
static double median(const struct ordered *o, const int *drawn, int count)
{
    const int wanted = (count + 1) / 2;
    int seen = 0;
    int at = 0;
    for (seen = drawn[o[0].iteration]; seen < wanted; seen += drawn[o[at].iteration]) {
        at++;
    }
    return o[at].value > 0 ? (double)o[at].value : 1;
}

static void resample(int *drawn, int count, uint64_t *state)
{
    const int run = (int)cbrt((double)count);
    memset(drawn, 0, (size_t)count * sizeof(*drawn));
    for (int taken = 0; taken < count;) {
        int i = (int)(draw(state) % (uint64_t)count);
        for (int k = 0; k < run && taken < count; k++, taken++) {
            drawn[i]++;
            i = i + 1 < count ? i + 1 : 0;
        }
    }
}

bool tti_bench_ratio_of(const int64_t *tutti, int tutti_batch, const int64_t *other, int other_batch, int count,
                        struct tti_bench_ratio *ratio)
{
    struct ordered *a = order(tutti, count);
    struct ordered *b = order(other, count);
    int *drawn = malloc((size_t)count * sizeof(*drawn));
    double *ratios = malloc(RESAMPLES * sizeof(*ratios));
    const bool good = a && b && drawn && ratios;
    if (good) {
        const double scale = (double)other_batch / tutti_batch;
        uint64_t state = SEED;
        for (int i = 0; i < count; i++) {
            drawn[i] = 1;
        }
        ratio->median = scale * median(a, drawn, count) / median(b, drawn, count);
        for (int i = 0; i < RESAMPLES; i++) {
            resample(drawn, count, &state);
            ratios[i] = scale * median(a, drawn, count) / median(b, drawn, count);
        }
        qsort(ratios, RESAMPLES, sizeof(*ratios), compare_double);
        ratio->low = ratios[RESAMPLES * 25 / 1000];
        ratio->high = ratios[RESAMPLES * 975 / 1000 - 1];
    }
    free(a);
    free(b);
    free(drawn);
    free(ratios);
    return good;
}
