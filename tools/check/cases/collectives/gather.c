/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather; and all_gather, with parts of equal and of different length, in which each rank is a root. In place, the
 * input is the own part of the output. Off the root the output is a tensor that must stay unwritten or, in place, NULL.
 */
#include "check/cases/collectives/forms.h"

static bool receives(const struct tti_check_job *job)
{
    return job->form->kind != TTI_CHECK_GATHER || job->check.rank == job->plan.root;
}

static void prepare(struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_parts *parts = &job->parts;
    tti_check_parts_make(parts, c->size, p);
    tti_check_parts_shape(p, parts->counts[c->rank], job->input_shape);
    tti_check_parts_shape(p, parts->rows, job->output_shape);
    tti_check_job_tensors(job, job->input_shape, job->output_shape);
    job->result = receives(job) ? &job->output.t : NULL;
    if (p->in_place && receives(job)) {
        const size_t own = tti_check_parts_first(parts, c->rank, 0);
        tti_check_tensor_fill(c, &job->output, own, job->input.count, c->rank, p->pattern, 0);
        job->source = tti_check_tensor_view(&job->output, own, p->ndim, job->input_shape);
        job->operation.input = &job->source;
    } else if (p->in_place) {
        job->operation.output = NULL;
    }
    job->operation.counts = parts->counts;
    job->operation.displacements = parts->displaced ? parts->first_row : NULL;
}

static void verify(struct tti_check_job *job, bool ok)
{
    struct tti_check *c = &job->check;
    if (ok && receives(job)) {
        tti_check_parts_gathered(c, &job->output, &job->parts, &job->plan);
    } else if (ok) {
        tti_check_tensor_untouched(c, &job->output, 0, job->output.count);
    }
    tti_check_tensor_unchanged(c, &job->input, "the input");
}

const struct tti_check_form tti_check_gather_form = {"gather", TTI_CHECK_GATHER, prepare, verify};
const struct tti_check_form tti_check_all_gather_form = {"all_gather", TTI_CHECK_ALL_GATHER, prepare, verify};
const struct tti_check_form tti_check_all_gather_v_form = {"all_gather_v", TTI_CHECK_ALL_GATHER_V, prepare, verify};
