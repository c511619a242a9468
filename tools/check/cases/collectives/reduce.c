/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce; and all_reduce, in which each rank is a root. Off the root the output is a tensor that must stay unwritten
 * or, in place, NULL. */
#include "check/cases/collectives/forms.h"
#include "check/reference/expect.h"

static bool receives(const struct tti_check_job *job)
{
    return job->form->kind != TTI_CHECK_REDUCE || job->check.rank == job->plan.root;
}

static void prepare(struct tti_check_job *job)
{
    tti_check_job_tensors(job, job->plan.shape, job->plan.shape);
    if (job->plan.in_place) {
        job->operation.output = receives(job) ? &job->input.t : NULL;
    }
    job->result = receives(job) ? job->operation.output : NULL;
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_tensor *result = p->in_place ? &job->input : &job->output;
    if (ok && receives(job)) {
        tti_check_expect_fold(c, tti_check_tensor_result(c, result), p, 0, result->count, 0);
    } else if (ok) {
        tti_check_tensor_untouched(c, &job->output, 0, job->output.count);
    }
    if (!p->in_place || !receives(job)) {
        tti_check_tensor_unchanged(c, &job->input, "the input");
    }
}

const struct tti_check_form tti_check_reduce_form = {"reduce", TTI_CHECK_REDUCE, prepare, verify};
const struct tti_check_form tti_check_all_reduce_form = {"all_reduce", TTI_CHECK_ALL_REDUCE, prepare, verify};
