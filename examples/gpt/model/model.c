/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A step computes, for each token, 6 operations per parameter: 2 forward and 4 backward. Each rank does 1 /
 * tensor_ranks of them. The head is a column-parallel layer as those of the blocks, and its outputs stay split: the
 * loss takes them so.
 *
 * Parameters that are not split lie between the tensor-parallel regions. With sequence parallelism a rank has seen its
 * own tokens there, so its gradients are parts of sums; without, all ranks have the same gradients already.
 */
#include "model.h"

#include "common/common.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/loss.h"
#include "layers/norm.h"

#include <stdlib.h>
#include <string.h>

static struct linear head_of(const struct model *m)
{
    const struct parameter *head = m->parameters.head;
    return (struct linear){head->value, head->gradient, head->local[0], head->local[1]};
}

void model_create(struct model *m, const struct shape *s, struct parallel *p, int64_t sequences)
{
    memset(m, 0, sizeof(*m));
    m->shape = *s;
    m->parallel = p;
    parameters_create(&m->parameters, s, p->tensor_rank, p->tensor_ranks);
    parameters_allocate(&m->parameters, true);
    block_common_create(&m->common, s, p, sequences);
    m->rows = m->common.rows;
    m->blocks = allocate((size_t)s->layers, sizeof(*m->blocks));
    for (int32_t i = 0; i < s->layers; i++) {
        block_create(&m->blocks[i], &m->common, &m->parameters.blocks[i]);
    }
    const size_t numbers = (size_t)m->rows * (size_t)s->hidden;
    m->x = allocate(numbers, sizeof(float));
    m->last = allocate(numbers, sizeof(float));
    m->normed = allocate(numbers, sizeof(float));
    m->scale = allocate((size_t)m->rows, sizeof(float));
    m->logits = allocate((size_t)m->rows * (size_t)head_of(m).outputs, sizeof(float));
    m->scratch = allocate((size_t)m->rows * 3, sizeof(float));
}

void model_free(struct model *m)
{
    for (int32_t i = 0; i < m->shape.layers; i++) {
        block_free(&m->blocks[i]);
    }
    block_common_free(&m->common);
    parameters_free(&m->parameters);
    free(m->blocks);
    free(m->x);
    free(m->last);
    free(m->normed);
    free(m->scale);
    free(m->logits);
    free(m->scratch);
    memset(m, 0, sizeof(*m));
}

/* Part 0: what is not split, and the tokens; part 1 + i: block i; the last part: the head, and the loss behind it. */
int32_t model_parts(const struct model *m)
{
    return m->shape.layers + 2;
}

static int64_t part_begin(const struct model *m, int32_t index)
{
    const struct parameters *p = &m->parameters;
    return index == 0                 ? 0
           : index <= m->shape.layers ? p->blocks[index - 1].query->offset
           : index < model_parts(m)   ? p->head->offset
                                      : p->floats + 1;
}

int64_t model_part(const struct model *m, int32_t index, float **gradients)
{
    *gradients = m->parameters.gradients + part_begin(m, index);
    return part_begin(m, index + 1) - part_begin(m, index);
}

void model_forward(struct model *m, const int32_t *tokens)
{
    struct parallel *p = m->parallel;
    const struct block_common *c = &m->common;
    const struct linear head = head_of(m);
    embedding_forward(p, &m->parameters, tokens, m->x, m->rows, m->shape.context);
    for (int32_t i = 0; i < m->shape.layers; i++) {
        block_forward(&m->blocks[i], c, m->x);
    }
    const float *own = tensor_own(p, m->x, m->rows, c->hidden);
    memcpy(m->last, own, (size_t)(c->own_rows * c->hidden) * sizeof(float));
    norm_forward(own, m->parameters.norm->value, tensor_own(p, m->normed, m->rows, c->hidden), m->scale, c->own_rows,
                 c->hidden);
    column_parallel_forward(p, &head, m->normed, m->logits, m->rows);
}

/* m->logits holds the derivatives by the logits. */
static void backward(struct model *m, const int32_t *tokens, part_done done, void *user)
{
    struct parallel *p = m->parallel;
    const struct block_common *c = &m->common;
    struct parameters *all = &m->parameters;
    const struct linear head = head_of(m);
    float *own = tensor_own(p, m->x, m->rows, c->hidden);
    column_parallel_backward(p, &head, m->normed, m->logits, c->sum, m->rows);
    done(model_parts(m) - 1, user);
    memset(own, 0, (size_t)(c->own_rows * c->hidden) * sizeof(float));
    norm_backward(m->last, all->norm->value, m->scale, tensor_own(p, c->sum, m->rows, c->hidden), all->norm->gradient,
                  own, c->own_rows, c->hidden);
    for (int32_t i = m->shape.layers - 1; i >= 0; i--) {
        block_backward(&m->blocks[i], c, m->x);
        done(i + 1, user);
    }
    embedding_backward(p, all, tokens, m->x, m->rows, m->shape.context);
    if (p->sequence) {
        tensor_all_reduce(p, all->gradients, all->replicated, TUTTI_SUM);
    }
    done(0, user);
}

void model_gradients(struct model *m, const int32_t *tokens, const int32_t *targets, float factor, part_done done,
                     void *user)
{
    struct parameters *all = &m->parameters;
    model_forward(m, tokens);
    const double loss = loss_forward_backward(m->parallel, m->logits, targets, m->rows, all->rank * all->head->local[0],
                                              all->head->local[0], factor, m->scratch);
    all->gradients[all->floats] = (float)(loss * factor);
    backward(m, tokens, done, user);
}
