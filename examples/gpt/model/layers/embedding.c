/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Positions are added after the sum, so each token gets its position once, not once a rank. Their gradient is a sum
 * over the rows between the layers: with sequence parallelism these are this rank's rows only.
 */
#include "embedding.h"

#include <string.h>

/* The row of a token in this rank's part of the table, or NULL. */
static float *row_of(const struct parameter *table, const struct parameters *m, float *rows, int32_t token)
{
    const int64_t row = token - m->rank * table->local[0];
    return row >= 0 && row < table->local[0] ? rows + row * table->local[1] : NULL;
}

static void add(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

void embedding_forward(struct parallel *p, const struct parameters *m, const int32_t *tokens, float *x, int64_t rows,
                       int64_t context)
{
    const int64_t hidden = m->token->local[1];
    for (int64_t r = 0; r < rows; r++) {
        const float *vector = row_of(m->token, m, m->token->value, tokens[r]);
        if (vector) {
            memcpy(x + r * hidden, vector, (size_t)hidden * sizeof(float));
        } else {
            memset(x + r * hidden, 0, (size_t)hidden * sizeof(float));
        }
    }
    tensor_leave(p, x, rows, hidden);
    const int64_t own_rows = tensor_own_rows(p, rows);
    float *own = tensor_own(p, x, rows, hidden);
    const int64_t first = (own - x) / hidden;
    for (int64_t r = 0; r < own_rows; r++) {
        add(own + r * hidden, m->position->value + (first + r) % context * hidden, hidden);
    }
}

void embedding_backward(struct parallel *p, struct parameters *m, const int32_t *tokens, float *dx, int64_t rows,
                        int64_t context)
{
    const int64_t hidden = m->token->local[1];
    const int64_t own_rows = tensor_own_rows(p, rows);
    const float *own = tensor_own(p, dx, rows, hidden);
    const int64_t first = (own - dx) / hidden;
    memset(m->position->gradient, 0, (size_t)(m->position->local[0] * hidden) * sizeof(float));
    for (int64_t r = 0; r < own_rows; r++) {
        add(m->position->gradient + (first + r) % context * hidden, own + r * hidden, hidden);
    }
    tensor_enter(p, dx, rows, hidden);
    memset(m->token->gradient, 0, (size_t)(m->token->local[0] * hidden) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        float *gradient = row_of(m->token, m, m->token->gradient, tokens[r]);
        if (gradient) {
            add(gradient, dx + r * hidden, hidden);
        }
    }
}
