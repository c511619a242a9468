/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_scatter, and its form with parts of different length. In place, the output is the own part of the input. */
#include "check/cases/collectives/forms.h"
#include "check/reference/expect.h"

static void prepare(struct tti_check_job *job)
{
    const struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_parts *parts = &job->parts;
    tti_check_parts_make(parts, c->size, p);
    tti_check_parts_shape(p, parts->counts[c->rank], job->output_shape);
    tti_check_parts_shape(p, parts->rows, job->input_shape);
    tti_check_job_tensors(job, job->input_shape, job->output_shape);
    job->operation.counts = parts->counts;
    if (p->in_place) {
        const size_t own = tti_check_parts_first(parts, c->rank, 0);
        job->target = tti_check_tensor_view(&job->input, own, p->ndim, job->output_shape);
        job->operation.output = &job->target;
        job->result = &job->target;
    }
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const struct tti_check_parts *parts = &job->parts;
    if (ok) {
        /* in place only the guards and the own part are promised: the rest of the input may serve as scratch */
        const unsigned char *result = tti_check_tensor_result(c, p->in_place ? &job->input : &job->output);
        const size_t own = tti_check_parts_first(parts, c->rank, 0);
        const size_t run = tti_check_parts_elements(parts, c->rank);
        for (size_t o = 0; o < parts->outer; o++) {
            tti_check_expect_fold(c, result, p, p->in_place ? own : o * run, run,
                                  tti_check_parts_first(parts, c->rank, o));
        }
    }
    if (!p->in_place) {
        tti_check_tensor_unchanged(c, &job->input, "the input");
    }
}

const struct tti_check_form tti_check_reduce_scatter_form = {"reduce_scatter", TTI_CHECK_REDUCE_SCATTER, prepare,
                                                             verify};
const struct tti_check_form tti_check_reduce_scatter_v_form = {"reduce_scatter_v", TTI_CHECK_REDUCE_SCATTER_V, prepare,
                                                               verify};
