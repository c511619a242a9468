/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce. Off the root the output is a tensor that nobody may write to or, in the in-place cases, NULL. */
#include "check/data.h"

void tti_check_reduce_run(struct tti_check *c, const struct tti_check_plan *p)
{
    const bool is_root = c->rank == p->root;
    struct tti_check_tensor input;
    struct tti_check_tensor output;
    tti_check_tensor_make(&input, p->dtype, p->ndim, p->shape, p->layout);
    tti_check_tensor_make(&output, p->dtype, p->ndim, p->shape, p->layout);
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    tti_check_tensor_seal(&input);

    struct tti_check_tensor *result = p->in_place ? &input : &output;
    const tutti_status status =
        tutti_reduce(c->group, &input.t, is_root || !p->in_place ? &result->t : NULL, p->op, p->root,
                     TUTTI_CALL(.lane = c->lane, .scale = tti_check_factor(c, p), .error = &c->error));
    if (tti_check_ok(c, "reduce", status)) {
        if (is_root) {
            tti_check_expect_fold(c, tti_check_tensor_result(c, result), p, 0, result->count, 0);
        } else {
            tti_check_tensor_untouched(c, &output, 0, output.count);
        }
    }
    if (!is_root || !p->in_place) {
        tti_check_tensor_unchanged(c, &input, "the input");
    }
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
}
