/* SPDX-License-Identifier: BSD-3-Clause */
/* all_to_all, and its form with parts of different length, whose matrix of counts is not symmetric. */
#include "check/cases/collectives/forms.h"
#include "check/reference/expect.h"

static void prepare(struct tti_check_job *job)
{
    const struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    struct tti_check_parts *sent = &job->parts;
    struct tti_check_parts *received = &job->received;
    tti_check_parts_make_pairwise(sent, c->size, p, c->rank, true);
    tti_check_parts_make_pairwise(received, c->size, p, c->rank, false);
    tti_check_parts_shape(p, sent->rows, job->input_shape);
    tti_check_parts_shape(p, received->rows, job->output_shape);
    tti_check_job_tensors(job, job->input_shape, job->output_shape);
    job->operation.counts = sent->counts;
    job->operation.displacements = sent->displaced ? sent->first_row : NULL;
    job->operation.recv_counts = received->counts;
    job->operation.recv_displacements = received->displaced ? received->first_row : NULL;
}

/* Part s of the output must be the part that rank s sends to this rank. */
static void expect(struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    const struct tti_check_plan *p = &job->plan;
    const struct tti_check_parts *received = &job->received;
    const unsigned char *result = tti_check_tensor_result(c, &job->output);
    for (int s = 0; s < c->size; s++) {
        struct tti_check_parts theirs;
        tti_check_parts_make_pairwise(&theirs, c->size, p, s, true);
        for (size_t o = 0; o < received->outer; o++) {
            tti_check_expect_copy(c, result, p->dtype, tti_check_parts_first(received, s, o),
                                  tti_check_parts_elements(received, s), s, p->pattern,
                                  tti_check_parts_first(&theirs, c->rank, o));
        }
        tti_check_parts_free(&theirs);
    }
    tti_check_parts_gaps(c, &job->output, received);
}

static void verify(struct tti_check_job *job, bool ok)
{
    if (ok) {
        expect(job);
    }
    tti_check_tensor_unchanged(&job->check, &job->input, "the input");
}

const struct tti_check_form tti_check_all_to_all_form = {"all_to_all", TTI_CHECK_ALL_TO_ALL, prepare, verify};
const struct tti_check_form tti_check_all_to_all_v_form = {"all_to_all_v", TTI_CHECK_ALL_TO_ALL_V, prepare, verify};
