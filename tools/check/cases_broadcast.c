/* SPDX-License-Identifier: BSD-3-Clause */
/* broadcast: everybody ends with the root's data, and the root's tensor stays as it was. */
#include "check/data.h"

void tti_check_broadcast_run(struct tti_check *c, const struct tti_check_plan *p)
{
    struct tti_check_tensor x;
    tti_check_tensor_make(&x, p->dtype, p->ndim, p->shape, p->layout);
    if (c->rank == p->root) {
        tti_check_tensor_fill(c, &x, 0, x.count, p->root, p->pattern, 0);
    }
    tti_check_tensor_seal(&x);
    const tutti_status status =
        tutti_broadcast(c->group, &x.t, p->root, TUTTI_CALL(.lane = c->lane, .error = &c->error));
    if (tti_check_ok(c, "broadcast", status)) {
        if (c->rank == p->root) {
            tti_check_tensor_unchanged(c, &x, "the root's tensor");
        }
        tti_check_expect_copy(c, tti_check_tensor_result(c, &x), p->dtype, 0, x.count, p->root, p->pattern, 0);
    }
    tti_check_tensor_free(&x);
}
