/* SPDX-License-Identifier: BSD-3-Clause */
/* all_gather, and its form with parts of different length. In place, the input is the own part of the output. */
#include "check/data.h"

static tutti_status call(struct tti_check *c, const struct tti_check_plan *p, bool variable, const DLTensor *input,
                         DLTensor *output, const struct tti_check_parts *parts)
{
    const tutti_call *options = TUTTI_CALL(.lane = c->lane, .error = &c->error);
    if (variable) {
        return tutti_all_gather_v(c->group, input, output, p->dim, parts->counts, parts->displaced ? parts->at : NULL,
                                  options);
    }
    return tutti_all_gather(c->group, input, output, p->dim, options);
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
    tti_check_tensor_make(&input, p->dtype, p->ndim, part_shape, p->layout);
    tti_check_tensor_make(&output, p->dtype, p->ndim > 0 ? p->ndim : 1, joined_shape, p->layout);
    DLTensor source = input.t;
    if (p->in_place) {
        const size_t own = tti_check_parts_first(&parts, c->rank, 0);
        tti_check_tensor_fill(c, &output, own, input.count, c->rank, p->pattern, 0);
        source = tti_check_tensor_view(&output, own, p->ndim, part_shape);
    } else {
        tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    }
    tti_check_tensor_seal(&input);

    if (tti_check_ok(c, "all_gather", call(c, p, variable, &source, &output.t, &parts))) {
        tti_check_parts_gathered(c, &output, &parts, p);
    }
    tti_check_tensor_unchanged(c, &input, "the input");
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
    tti_check_parts_free(&parts);
}

void tti_check_all_gather_run(struct tti_check *c, const struct tti_check_plan *p)
{
    run(c, p, false);
}

void tti_check_all_gather_v_run(struct tti_check *c, const struct tti_check_plan *p)
{
    run(c, p, true);
}
