/* SPDX-License-Identifier: BSD-3-Clause */
/* broadcast: every rank ends with the root's data, and the root's tensor stays as it was. */
#include "check/cases/collectives/forms.h"
#include "check/reference/expect.h"

static void prepare(struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    tti_check_tensor_make(c, &job->output, p->dtype, p->ndim, p->shape, p->layout);
    if (c->rank == p->root) {
        tti_check_tensor_fill(c, &job->output, 0, job->output.count, p->root, p->pattern, 0);
    }
    tti_check_tensor_seal(&job->output);
    job->result = &job->output.t;
    job->operation = (struct tti_check_operation){.output = &job->output.t};
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_tensor *x = &job->output;
    if (ok) {
        if (c->rank == p->root) {
            tti_check_tensor_unchanged(c, x, "the root's tensor");
        }
        tti_check_expect_copy(c, tti_check_tensor_result(c, x), p->dtype, 0, x->count, p->root, p->pattern, 0);
    }
}

const struct tti_check_form tti_check_broadcast_form = {"broadcast", TTI_CHECK_BROADCAST, prepare, verify};
