/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forward pass is one product, the backward pass two of the same size: dW = dy' x and dx = dy W. A rank computes
 * 1 / ranks of each.
 */
#include "linear.h"

#include "product.h"

static void forward(const struct linear *l, const float *x, float *y, int64_t rows)
{
    product(y, l->outputs, (struct matrix){x, l->inputs, false}, (struct matrix){l->weight, l->inputs, true}, rows,
            l->outputs, l->inputs, 1, 0);
}

static void backward(const struct linear *l, const float *x, const float *dy, float *dx, int64_t rows)
{
    product(l->gradient, l->inputs, (struct matrix){dy, l->outputs, true}, (struct matrix){x, l->inputs, false},
            l->outputs, l->inputs, rows, 1, 0);
    product(dx, l->inputs, (struct matrix){dy, l->outputs, false}, (struct matrix){l->weight, l->inputs, false}, rows,
            l->inputs, l->outputs, 1, 0);
}

void column_parallel_forward(struct parallel *p, const struct linear *l, float *x, float *y, int64_t rows)
{
    tensor_enter(p, x, rows, l->inputs);
    forward(l, x, y, rows);
}

void column_parallel_backward(struct parallel *p, const struct linear *l, const float *x, const float *dy, float *dx,
                              int64_t rows)
{
    backward(l, x, dy, dx, rows);
    tensor_leave(p, dx, rows, l->inputs);
}

void row_parallel_forward(struct parallel *p, const struct linear *l, const float *x, float *y, int64_t rows)
{
    forward(l, x, y, rows);
    tensor_leave(p, y, rows, l->outputs);
}

void row_parallel_backward(struct parallel *p, const struct linear *l, const float *x, float *dy, float *dx,
                           int64_t rows)
{
    tensor_enter(p, dy, rows, l->outputs);
    backward(l, x, dy, dx, rows);
}
