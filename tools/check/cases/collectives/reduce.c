/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce. Off the root the output is a tensor that must stay unwritten or, in the in-place cases, NULL. */
#include "check/cases/collectives/forms.h"
#include "check/check.h"
#include "check/data/tensors.h"
#include "check/operation/calls.h"
#include "check/operation/jobs.h"
#include "check/plan.h"
#include "check/reference/expect.h"

static void prepare(struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const bool is_root = c->rank == p->root;
    tti_check_tensor_make(c, &job->input, p->dtype, p->ndim, p->shape, p->layout);
    tti_check_tensor_make(c, &job->output, p->dtype, p->ndim, p->shape, p->layout);
    tti_check_tensor_fill(c, &job->input, 0, job->input.count, c->rank, p->pattern, 0);
    tti_check_tensor_seal(&job->input);
    DLTensor *output = p->in_place ? &job->input.t : &job->output.t;
    job->result = is_root ? output : NULL;
    job->operation = (struct tti_check_operation){
        .kind = TTI_CHECK_REDUCE, .input = &job->input.t, .output = is_root || !p->in_place ? output : NULL};
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

const struct tti_check_form tti_check_reduce_form = {"reduce", prepare, verify};
