/* SPDX-License-Identifier: BSD-3-Clause */
/* gather. Off the root the output is a tensor that must stay unwritten or, in the in-place cases, NULL. */
#include "check/cases/collectives/forms.h"

static void prepare(struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const bool is_root = c->rank == p->root;
    tti_check_parts_make(&job->parts, c->size, p);
    tti_check_parts_shape(p, job->parts.rows, job->output_shape);
    tti_check_job_tensors(job, p->shape, job->output_shape);
    job->result = is_root ? &job->output.t : NULL;
    if (p->in_place && is_root) {
        const size_t own = tti_check_parts_first(&job->parts, c->rank, 0);
        tti_check_tensor_fill(c, &job->output, own, job->input.count, c->rank, p->pattern, 0);
        job->source = tti_check_tensor_view(&job->output, own, p->ndim, p->shape);
        job->operation.input = &job->source;
    } else if (p->in_place) {
        job->operation.output = NULL;
    }
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    if (ok && c->rank == job->plan.root) {
        tti_check_parts_gathered(c, &job->output, &job->parts, &job->plan);
    } else if (ok) {
        tti_check_tensor_untouched(c, &job->output, 0, job->output.count);
    }
    tti_check_tensor_unchanged(c, &job->input, "the input");
}

const struct tti_check_form tti_check_gather_form = {"gather", TTI_CHECK_GATHER, prepare, verify};
