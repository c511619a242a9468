/* SPDX-License-Identifier: BSD-3-Clause */
/* all_gather, and its form with parts of different length. In place, the input is the own part of the output. */
#include "check/cases/collectives/forms.h"
#include "check/check.h"
#include "check/data/parts.h"
#include "check/data/tensors.h"
#include "check/operation/calls.h"
#include "check/operation/jobs.h"
#include "check/plan.h"

static void prepare(struct tti_check_job *job, enum tti_check_kind kind)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_parts *parts = &job->parts;
    tti_check_parts_make(parts, c->size, p);
    tti_check_parts_shape(p, parts->counts[c->rank], job->input_shape);
    tti_check_parts_shape(p, parts->rows, job->output_shape);
    tti_check_tensor_make(c, &job->input, p->dtype, p->ndim, job->input_shape, p->layout);
    tti_check_tensor_make(c, &job->output, p->dtype, p->ndim > 0 ? p->ndim : 1, job->output_shape, p->layout);
    job->source = job->input.t;
    if (p->in_place) {
        const size_t own = tti_check_parts_first(parts, c->rank, 0);
        tti_check_tensor_fill(c, &job->output, own, job->input.count, c->rank, p->pattern, 0);
        job->source = tti_check_tensor_view(&job->output, own, p->ndim, job->input_shape);
    } else {
        tti_check_tensor_fill(c, &job->input, 0, job->input.count, c->rank, p->pattern, 0);
    }
    tti_check_tensor_seal(&job->input);
    job->result = &job->output.t;
    job->operation = (struct tti_check_operation){.kind = kind,
                                                  .input = &job->source,
                                                  .output = &job->output.t,
                                                  .counts = parts->counts,
                                                  .at = parts->displaced ? parts->at : NULL};
}

static void prepare_even(struct tti_check_job *job)
{
    prepare(job, TTI_CHECK_ALL_GATHER);
}

static void prepare_variable(struct tti_check_job *job)
{
    prepare(job, TTI_CHECK_ALL_GATHER_V);
}

static void verify(struct tti_check_job *job, bool ok)
{
    if (ok) {
        tti_check_parts_gathered(&job->check, &job->output, &job->parts, &job->plan);
    }
    tti_check_tensor_unchanged(&job->check, &job->input, "the input");
}

const struct tti_check_form tti_check_all_gather_form = {"all_gather", prepare_even, verify};
const struct tti_check_form tti_check_all_gather_v_form = {"all_gather_v", prepare_variable, verify};
