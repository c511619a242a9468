/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything that the forward pass computes is kept, about 20 numbers per token and hidden dimension. Large models keep
 * less and compute it again (Chen et al. 2016; Korthikanti et al. 2022).
 */
#include "block.h"

#include "common/common.h"
#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/norm.h"

#include <stdlib.h>
#include <string.h>

/* Matrices that are neighbours in memory, from `first` to `last`, as one layer. */
static struct linear joined(const struct parameter *first, const struct parameter *last)
{
    const int64_t numbers = last->offset + last->local[0] * last->local[1] - first->offset;
    return (struct linear){first->value, first->gradient, numbers / first->local[1], first->local[1]};
}

static float *room(int64_t rows, int64_t width)
{
    return allocate((size_t)rows * (size_t)width, sizeof(float));
}

void block_common_create(struct block_common *c, const struct shape *s, struct parallel *p, int64_t sequences)
{
    const int64_t width = s->hidden / s->heads;
    memset(c, 0, sizeof(*c));
    c->parallel = p;
    c->attention = (struct attention){.sequences = sequences,
                                      .context = s->context,
                                      .heads = s->heads / p->tensor_ranks,
                                      .kv_heads = s->kv_heads / p->tensor_ranks,
                                      .width = width};
    c->rows = sequences * s->context;
    c->own_rows = tensor_own_rows(p, c->rows);
    c->hidden = s->hidden;
    const int64_t mixed = c->attention.heads * width;
    const int64_t projected = mixed + 2 * c->attention.kv_heads * width;
    const int64_t mlp = s->mlp / p->tensor_ranks;
    c->sum = room(c->rows, c->hidden);
    c->wide = room(c->rows, projected > 2 * mlp ? projected : 2 * mlp);
    c->narrow = room(c->rows, mixed > mlp ? mixed : mlp);
    c->scratch = room(s->context, s->context);
}

void block_common_free(struct block_common *c)
{
    free(c->sum);
    free(c->wide);
    free(c->narrow);
    free(c->scratch);
}

void block_create(struct block *b, const struct block_common *c, struct block_parameters *parameters)
{
    const struct attention *a = &c->attention;
    b->parameters = parameters;
    b->input = room(c->own_rows, c->hidden);
    b->middle = room(c->own_rows, c->hidden);
    b->scale1 = room(c->own_rows, 1);
    b->scale2 = room(c->own_rows, 1);
    b->normed1 = room(c->rows, c->hidden);
    b->normed2 = room(c->rows, c->hidden);
    b->projected = room(c->rows, joined(parameters->query, parameters->value).outputs);
    b->weights = room(a->sequences * a->heads, a->context * a->context);
    b->mixed = room(c->rows, parameters->output->local[1]);
    b->gate_up = room(c->rows, joined(parameters->gate, parameters->up).outputs);
    b->activated = room(c->rows, parameters->down->local[1]);
}

void block_free(struct block *b)
{
    float *all[] = {b->input,     b->middle,  b->scale1, b->scale2,  b->normed1,  b->normed2,
                    b->projected, b->weights, b->mixed,  b->gate_up, b->activated};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        free(all[i]);
    }
}

/* Adds what a region has left in c->sum to x. */
static void add_sum(const struct block_common *c, float *x)
{
    const float *sum = tensor_own(c->parallel, c->sum, c->rows, c->hidden);
    for (int64_t i = 0; i < c->own_rows * c->hidden; i++) {
        x[i] += sum[i];
    }
}

void block_forward(struct block *b, const struct block_common *c, float *x)
{
    struct parallel *p = c->parallel;
    const struct block_parameters *m = b->parameters;
    const size_t own_bytes = (size_t)(c->own_rows * c->hidden) * sizeof(float);
    const struct linear project = joined(m->query, m->value);
    const struct linear output = joined(m->output, m->output);
    const struct linear gate_up = joined(m->gate, m->up);
    const struct linear down = joined(m->down, m->down);
    float *own = tensor_own(p, x, c->rows, c->hidden);

    memcpy(b->input, own, own_bytes);
    norm_forward(own, m->norm1->value, tensor_own(p, b->normed1, c->rows, c->hidden), b->scale1, c->own_rows,
                 c->hidden);
    column_parallel_forward(p, &project, b->normed1, b->projected, c->rows);
    attention_forward(&c->attention, b->projected, b->weights, b->mixed);
    row_parallel_forward(p, &output, b->mixed, c->sum, c->rows);
    add_sum(c, own);

    memcpy(b->middle, own, own_bytes);
    norm_forward(own, m->norm2->value, tensor_own(p, b->normed2, c->rows, c->hidden), b->scale2, c->own_rows,
                 c->hidden);
    column_parallel_forward(p, &gate_up, b->normed2, b->gate_up, c->rows);
    mlp_forward(b->gate_up, b->activated, c->rows, down.inputs);
    row_parallel_forward(p, &down, b->activated, c->sum, c->rows);
    add_sum(c, own);
}

/* The residual connection passes dx on unchanged; the norm adds the region's part to it. */
void block_backward(struct block *b, const struct block_common *c, float *dx)
{
    struct parallel *p = c->parallel;
    const struct block_parameters *m = b->parameters;
    const struct linear project = joined(m->query, m->value);
    const struct linear output = joined(m->output, m->output);
    const struct linear gate_up = joined(m->gate, m->up);
    const struct linear down = joined(m->down, m->down);
    float *own = tensor_own(p, dx, c->rows, c->hidden);
    const float *region = tensor_own(p, c->sum, c->rows, c->hidden);

    row_parallel_backward(p, &down, b->activated, dx, c->narrow, c->rows);
    mlp_backward(b->gate_up, c->narrow, c->wide, c->rows, down.inputs);
    column_parallel_backward(p, &gate_up, b->normed2, c->wide, c->sum, c->rows);
    norm_backward(b->middle, m->norm2->value, b->scale2, region, m->norm2->gradient, own, c->own_rows, c->hidden);

    row_parallel_backward(p, &output, b->mixed, dx, c->narrow, c->rows);
    attention_backward(&c->attention, b->projected, b->weights, c->narrow, c->wide, c->scratch);
    column_parallel_backward(p, &project, b->normed1, c->wide, c->sum, c->rows);
    norm_backward(b->input, m->norm1->value, b->scale1, region, m->norm1->gradient, own, c->own_rows, c->hidden);
}
