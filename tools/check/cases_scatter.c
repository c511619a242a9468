/* SPDX-License-Identifier: BSD-3-Clause */
/* scatter. Off the root the input is a tensor that must not matter or, in the in-place cases, NULL. */
#include "check/data.h"

void tti_check_scatter_run(struct tti_check *c, const struct tti_check_plan *p)
{
    const bool is_root = c->rank == p->root;
    struct tti_check_parts parts;
    tti_check_parts_make(&parts, c->size, p);
    int64_t joined_shape[3];
    tti_check_parts_shape(p, parts.rows, joined_shape);

    struct tti_check_tensor input;
    struct tti_check_tensor output;
    tti_check_tensor_make(&input, p->dtype, p->ndim, joined_shape, p->layout);
    tti_check_tensor_make(&output, p->dtype, p->ndim, p->shape, p->layout);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    tti_check_tensor_seal(&input);

    const bool in_place = p->in_place && is_root;
    const size_t own = tti_check_parts_first(&parts, c->rank, 0);
    DLTensor own_part = output.t;
    if (in_place) {
        own_part = tti_check_tensor_view(&input, own, p->ndim, p->shape);
    }
    const tutti_status status = tutti_scatter(c->group, is_root || !p->in_place ? &input.t : NULL, &own_part, p->dim,
                                              p->root, TUTTI_CALL(.lane = c->lane, .error = &c->error));
    if (tti_check_ok(c, "scatter", status) && !in_place) {
        const unsigned char *result = tti_check_tensor_result(c, &output);
        const size_t run = tti_check_parts_run(&parts, c->rank);
        for (size_t o = 0; o < parts.outer; o++) {
            tti_check_expect_copy(c, result, p->dtype, o * run, run, p->root, p->pattern,
                                  tti_check_parts_first(&parts, c->rank, o));
        }
    }
    /* in place the own part is already where it belongs, so nothing at all may change */
    tti_check_tensor_unchanged(c, &input, "the input");
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
    tti_check_parts_free(&parts);
}
