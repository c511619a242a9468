/* SPDX-License-Identifier: BSD-3-Clause */
/* scatter. Off the root the input is a tensor that must not matter or, in the in-place cases, NULL. */
#include "check/cases/collectives/forms.h"
#include "check/reference/expect.h"

static void prepare(struct tti_check_job *job)
{
    const struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const bool is_root = c->rank == p->root;
    tti_check_parts_make(&job->parts, c->size, p);
    tti_check_parts_shape(p, job->parts.rows, job->input_shape);
    tti_check_job_tensors(job, job->input_shape, p->shape);
    if (p->in_place && is_root) {
        const size_t own = tti_check_parts_first(&job->parts, c->rank, 0);
        job->target = tti_check_tensor_view(&job->input, own, p->ndim, p->shape);
        job->operation.output = &job->target;
        job->result = &job->target;
    } else if (p->in_place) {
        job->operation.input = NULL;
    }
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const struct tti_check_parts *parts = &job->parts;
    if (ok && !(p->in_place && c->rank == p->root)) {
        const unsigned char *result = tti_check_tensor_result(c, &job->output);
        const size_t run = tti_check_parts_elements(parts, c->rank);
        for (size_t o = 0; o < parts->outer; o++) {
            tti_check_expect_copy(c, result, p->dtype, o * run, run, p->root, p->pattern,
                                  tti_check_parts_first(parts, c->rank, o));
        }
    }
    /* in place the own part is already where it belongs, so nothing at all may change */
    tti_check_tensor_unchanged(c, &job->input, "the input");
}

const struct tti_check_form tti_check_scatter_form = {"scatter", TTI_CHECK_SCATTER, prepare, verify};
