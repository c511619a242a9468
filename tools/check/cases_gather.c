/* SPDX-License-Identifier: BSD-3-Clause */
/* gather. Off the root the output is a tensor that nobody may write to or, in the in-place cases, NULL. */
#include "check/data.h"

void tti_check_gather_run(struct tti_check *c, const struct tti_check_plan *p)
{
    const bool is_root = c->rank == p->root;
    struct tti_check_parts parts;
    tti_check_parts_make(&parts, c->size, p);
    int64_t joined_shape[3];
    tti_check_parts_shape(p, parts.rows, joined_shape);

    struct tti_check_tensor input;
    struct tti_check_tensor output;
    tti_check_tensor_make(&input, p->dtype, p->ndim, p->shape, p->layout);
    tti_check_tensor_make(&output, p->dtype, p->ndim, joined_shape, p->layout);
    DLTensor source = input.t;
    tti_check_tensor_fill(c, &input, 0, input.count, c->rank, p->pattern, 0);
    if (p->in_place && is_root) {
        const size_t own = tti_check_parts_first(&parts, c->rank, 0);
        tti_check_tensor_fill(c, &output, own, input.count, c->rank, p->pattern, 0);
        source = tti_check_tensor_view(&output, own, p->ndim, p->shape);
    }
    tti_check_tensor_seal(&input);

    const tutti_status status = tutti_gather(c->group, &source, is_root || !p->in_place ? &output.t : NULL, p->dim,
                                             p->root, TUTTI_CALL(.lane = c->lane, .error = &c->error));
    if (tti_check_ok(c, "gather", status)) {
        if (is_root) {
            tti_check_parts_gathered(c, &output, &parts, p);
        } else {
            tti_check_tensor_untouched(c, &output, 0, output.count);
        }
    }
    tti_check_tensor_unchanged(c, &input, "the input");
    tti_check_tensor_free(&input);
    tti_check_tensor_free(&output);
    tti_check_parts_free(&parts);
}
