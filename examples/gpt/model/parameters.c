/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random values come from a counter-based generator (Salmon et al. 2011): a hash of seed, parameter and position, here
 * the finaliser of splitmix64 (Steele et al. 2014). Deviations are GPT-2's: 0.02, and 0.02 / sqrt(2 layers) for the
 * matrices that add to the residual stream.
 */
#include "parameters.h"

#include "common/common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVIATION 0.02
#define PER_BLOCK 9
#define OUTSIDE   4 /* position, norm, token, head */

static struct parameter *add(struct parameters *p, const char *name, int32_t block, int64_t rows, int64_t columns,
                             int split, double deviation)
{
    struct parameter *a = &p->list[p->count++];
    if (block < 0) {
        snprintf(a->name, sizeof(a->name), "%s", name);
    } else {
        snprintf(a->name, sizeof(a->name), "block.%d.%s", block, name);
    }
    a->shape[0] = a->local[0] = rows;
    a->shape[1] = a->local[1] = columns;
    a->split = split;
    if (split >= 0) {
        a->local[split] /= p->ranks;
    }
    a->deviation = (float)deviation;
    a->offset = p->floats;
    p->floats += a->local[0] * a->local[1];
    return a;
}

void parameters_create(struct parameters *p, const struct shape *s, int32_t rank, int32_t ranks)
{
    memset(p, 0, sizeof(*p));
    p->rank = rank;
    p->ranks = ranks;
    p->list = allocate((size_t)s->layers * PER_BLOCK + OUTSIDE, sizeof(*p->list));
    p->blocks = allocate((size_t)s->layers, sizeof(*p->blocks));
    const int64_t hidden = s->hidden;
    const int64_t keys = hidden / s->heads * s->kv_heads;
    const double residual = DEVIATION / sqrt(2.0 * s->layers);

    p->position = add(p, "position", -1, s->context, hidden, -1, DEVIATION);
    for (int32_t i = 0; i < s->layers; i++) {
        p->blocks[i].norm1 = add(p, "norm1", i, 1, hidden, -1, 0);
        p->blocks[i].norm2 = add(p, "norm2", i, 1, hidden, -1, 0);
    }
    p->norm = add(p, "norm", -1, 1, hidden, -1, 0);
    p->replicated = p->floats;

    p->token = add(p, "token", -1, s->vocabulary, hidden, 0, DEVIATION);
    for (int32_t i = 0; i < s->layers; i++) {
        struct block_parameters *b = &p->blocks[i];
        b->query = add(p, "query", i, hidden, hidden, 0, DEVIATION);
        b->key = add(p, "key", i, keys, hidden, 0, DEVIATION);
        b->value = add(p, "value", i, keys, hidden, 0, DEVIATION);
        b->output = add(p, "output", i, hidden, hidden, 1, residual);
        b->gate = add(p, "gate", i, s->mlp, hidden, 0, DEVIATION);
        b->up = add(p, "up", i, s->mlp, hidden, 0, DEVIATION);
        b->down = add(p, "down", i, hidden, s->mlp, 1, residual);
    }
    p->head = add(p, "head", -1, s->vocabulary, hidden, 0, DEVIATION);
}

void parameters_allocate(struct parameters *p, bool gradients)
{
    p->values = allocate((size_t)p->floats, sizeof(float));
    p->gradients = gradients ? allocate((size_t)p->floats + 1, sizeof(float)) : NULL;
    for (int32_t i = 0; i < p->count; i++) {
        p->list[i].value = p->values + p->list[i].offset;
        p->list[i].gradient = gradients ? p->gradients + p->list[i].offset : NULL;
    }
}

void parameters_free(struct parameters *p)
{
    free(p->values);
    free(p->gradients);
    free(p->list);
    free(p->blocks);
    memset(p, 0, sizeof(*p));
}

float parameter_initial(const struct parameters *p, const struct parameter *which, uint64_t seed, int64_t row,
                        int64_t column)
{
    if (which->deviation == 0) {
        return 1;
    }
    if (which->split == 0) {
        row += p->rank * which->local[0];
    } else if (which->split == 1) {
        column += p->rank * which->local[1];
    }
    uint64_t key = seed;
    key = random_next(&key) + (uint64_t)(which - p->list);
    key = random_next(&key) + (uint64_t)(row * which->shape[1] + column);
    const double uniform = (double)(random_next(&key) >> 11) * 0x1p-53; /* 0..1, of deviation sqrt(1/12) */
    return (float)((uniform - 0.5) * sqrt(12.0) * which->deviation);
}

void parameters_randomize(struct parameters *p, uint64_t seed)
{
    for (int32_t i = 0; i < p->count; i++) {
        const struct parameter *a = &p->list[i];
        for (int64_t e = 0; e < a->local[0] * a->local[1]; e++) {
            a->value[e] = parameter_initial(p, a, seed, e / a->local[1], e % a->local[1]);
        }
    }
}
