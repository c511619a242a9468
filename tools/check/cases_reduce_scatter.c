/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_scatter, and its form with parts of different length. In place, the output is the own part of the input. */
#include "check/data.h"

static tutti_status call(struct tti_check *c, const struct tti_check_plan *p, bool variable, const DLTensor *input,
                         DLTensor *output, const struct tti_check_parts *parts)
{
    const tutti_call *options = TUTTI_CALL(.lane = c->lane, .scale = tti_check_factor(c, p), .error = &c->error);
    if (variable) {
        return tutti_reduce_scatter_v(c->group, input, output, p->op, p->dim, parts->counts, options);
    }
    return tutti_reduce_scatter(c->group, input, output, p->op, p->dim, options);
}

static void run(struct tti_check *c, const struct tti_check_plan *p, bool variable)
{
    struct tti_check_parts parts;
    tti_check_parts_make(&parts, c->size, p);
    int64_t part_shape[3];
    int64_t joined_shape[3];
    tti_check_parts_shape(p, parts.counts[c->rank], part_shape);
    tti_check_parts_shape(p, parts.rows, joined_shape);

    struct tti_check_tensor input;
    struct tti_check_tensor output;
    tti_check_tensor_make(&input, p->dtype, p->ndim, joined_shape, p->layout);
    tti_check_tensor_make(&output, p->dtype, p->ndim, part_shape, p->layout);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    tti_check_tensor_seal(&input);
    const size_t own = tti_check_parts_first(&parts, c->rank, 0);
    DLTensor part = output.t;
    if (p->in_place) {
        part = tti_check_tensor_view(&input, own, p->ndim, part_shape);
    }

    if (tti_check_ok(c, "reduce_scatter", call(c, p, variable, &input.t, &part, &parts))) {
        /* in place only the guards and the own part are promised: the rest of the input may serve as scratch */
        const unsigned char *result = tti_check_tensor_result(c, p->in_place ? &input : &output);
        const size_t run_length = tti_check_parts_run(&parts, c->rank);
        for (size_t o = 0; o < parts.outer; o++) {
            tti_check_expect_fold(c, result, p, p->in_place ? own : o * run_length, run_length,
                                  tti_check_parts_first(&parts, c->rank, o));
        }
    }
    if (!p->in_place) {
        tti_check_tensor_unchanged(c, &input, "the input");
    }
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
    tti_check_parts_free(&parts);
}

void tti_check_reduce_scatter_run(struct tti_check *c, const struct tti_check_plan *p)
{
    run(c, p, false);
}

void tti_check_reduce_scatter_v_run(struct tti_check *c, const struct tti_check_plan *p)
{
    run(c, p, true);
}
