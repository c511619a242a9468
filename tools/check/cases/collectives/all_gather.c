/* SPDX-License-Identifier: BSD-3-Clause */
/* all_gather, and its form with parts of different length. In place, the input is the own part of the output. */
#include "check/cases/collectives/forms.h"

static void prepare(struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_parts *parts = &job->parts;
    tti_check_parts_make(parts, c->size, p);
    tti_check_parts_shape(p, parts->counts[c->rank], job->input_shape);
    tti_check_parts_shape(p, parts->rows, job->output_shape);
    tti_check_job_tensors(job, job->input_shape, job->output_shape);
    if (p->in_place) {
        const size_t own = tti_check_parts_first(parts, c->rank, 0);
        tti_check_tensor_fill(c, &job->output, own, job->input.count, c->rank, p->pattern, 0);
        job->source = tti_check_tensor_view(&job->output, own, p->ndim, job->input_shape);
        job->operation.input = &job->source;
    }
    job->operation.counts = parts->counts;
    job->operation.at = parts->displaced ? parts->at : NULL;
}

static void verify(struct tti_check_job *job, bool ok)
{
    if (ok) {
        tti_check_parts_gathered(&job->check, &job->output, &job->parts, &job->plan);
    }
    tti_check_tensor_unchanged(&job->check, &job->input, "the input");
}

const struct tti_check_form tti_check_all_gather_form = {"all_gather", TTI_CHECK_ALL_GATHER, prepare, verify};
const struct tti_check_form tti_check_all_gather_v_form = {"all_gather_v", TTI_CHECK_ALL_GATHER_V, prepare, verify};
