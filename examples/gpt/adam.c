/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *     m = B1 m + (1 - B1) g,   v = B2 v + (1 - B2) g^2,   parameter -= rate (m' / (sqrt(v') + E) + decay * parameter)
 *
 * with m' and v' corrected for their beginning at 0. The length of the gradient is that of the whole model's, so it
 * takes a sum over the tensor-parallel ranks, in which a parameter that is not split counts once.
 */
#include "adam.h"

#include "common/common.h"

#include <math.h>
#include <stdlib.h>

#define B1      0.9f
#define B2      0.95f
#define E       1e-8f
#define DECAY   0.1f
#define LONGEST 1.0

void adam_create(struct adam *a, const struct parameters *p)
{
    a->step = 0;
    a->moments = allocate(2 * (size_t)p->floats, sizeof(float));
}

void adam_free(struct adam *a)
{
    free(a->moments);
}

static double squares(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)x[i] * x[i];
    }
    return sum;
}

static double gradient_length(const struct parameters *p, struct parallel *parallel)
{
    float split = (float)squares(p->gradients + p->replicated, p->floats - p->replicated);
    tensor_all_reduce(parallel, &split, 1, TUTTI_SUM);
    return sqrt(squares(p->gradients, p->replicated) + (double)split);
}

void adam_update(struct adam *a, struct parameters *p, struct parallel *parallel, double rate)
{
    const double length = gradient_length(p, parallel);
    const float scale = (float)(length > LONGEST ? LONGEST / length : 1);
    a->step++;
    const float first = (float)(1 / (1 - pow((double)B1, (double)a->step)));
    const float second = (float)(1 / (1 - pow((double)B2, (double)a->step)));
    for (int32_t i = 0; i < p->count; i++) {
        const struct parameter *q = &p->list[i];
        const float decay = q->deviation > 0 ? DECAY : 0; /* not of the norms' gains */
        float *m = a->moments + q->offset;
        float *v = m + p->floats;
        for (int64_t e = 0; e < q->local[0] * q->local[1]; e++) {
            const float g = scale * q->gradient[e];
            m[e] = B1 * m[e] + (1 - B1) * g;
            v[e] = B2 * v[e] + (1 - B2) * g * g;
            q->value[e] -= (float)rate * (first * m[e] / (sqrtf(second * v[e]) + E) + decay * q->value[e]);
        }
    }
}
