/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce. Off the root the output is a tensor that must stay unwritten or, in the in-place cases, NULL. */
#include "check/cases/collectives/forms.h"
#include "check/reference/expect.h"

static void prepare(struct tti_check_job *job)
{
    const bool is_root = job->check.rank == job->plan.root;
    tti_check_job_tensors(job, job->plan.shape, job->plan.shape);
    if (job->plan.in_place) {
        job->operation.output = is_root ? &job->input.t : NULL;
    }
    job->result = is_root ? job->operation.output : NULL;
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const bool is_root = c->rank == p->root;
    struct tti_check_tensor *result = p->in_place ? &job->input : &job->output;
    if (ok && is_root) {
        tti_check_expect_fold(c, tti_check_tensor_result(c, result), p, 0, result->count, 0);
    } else if (ok) {
        tti_check_tensor_untouched(c, &job->output, 0, job->output.count);
    }
    if (!is_root || !p->in_place) {
        tti_check_tensor_unchanged(c, &job->input, "the input");
    }
}

const struct tti_check_form tti_check_reduce_form = {"reduce", TTI_CHECK_REDUCE, prepare, verify};
